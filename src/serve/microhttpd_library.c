/* Loads libmicrohttpd with dlopen when a page is started. Only `sonde up` and `sonde agent` need it, and linking it
 * would load GnuTLS and its dependencies on every start (2 ms of CPU). As with libcurl (lib/otlp/curl_library.c),
 * hidden functions of the same names forward their arguments. MHD_start_daemon and MHD_get_version load the library;
 * the other functions need a daemon or a connection, and so cannot be called earlier. The library stays loaded. */
#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>

#define NAME "libmicrohttpd.so.12"

#define FORWARDED(each)                                                                                                \
    each(void, MHD_stop_daemon, (struct MHD_Daemon * daemon), (daemon)) each(MHD_socket, MHD_quiesce_daemon,           \
                                                                             (struct MHD_Daemon * daemon), (daemon))   \
        each(const union MHD_DaemonInfo *, MHD_get_daemon_info,                                                        \
             (struct MHD_Daemon * daemon, enum MHD_DaemonInfoType what, ...),                                          \
             (daemon, what)) each(int, MHD_get_connection_values,                                                      \
                                  (struct MHD_Connection * connection, enum MHD_ValueKind kind,                        \
                                   MHD_KeyValueIterator each_value, void *context),                                    \
                                  (connection, kind, each_value, context))                                             \
            each(int, MHD_get_connection_values_n,                                                                     \
                 (struct MHD_Connection * connection, enum MHD_ValueKind kind, MHD_KeyValueIteratorN each_value,       \
                  void *context),                                                                                      \
                 (connection, kind, each_value, context))                                                              \
                each(const char *, MHD_lookup_connection_value,                                                        \
                     (struct MHD_Connection * connection, enum MHD_ValueKind kind, const char *name),                  \
                     (connection, kind, name)) each(size_t, MHD_http_unescape, (char *text), (text))                   \
                    each(const union MHD_ConnectionInfo *, MHD_get_connection_info,                                    \
                         (struct MHD_Connection * connection, enum MHD_ConnectionInfoType what, ...),                  \
                         (connection, what)) each(struct MHD_Response *, MHD_create_response_from_callback,            \
                                                  (uint64_t size, size_t block_size, MHD_ContentReaderCallback read,   \
                                                   void *context, MHD_ContentReaderFreeCallback end),                  \
                                                  (size, block_size, read, context, end))                              \
                        each(struct MHD_Response *, MHD_create_response_from_buffer,                                   \
                             (size_t size, void *bytes, enum MHD_ResponseMemoryMode mode), (size, bytes, mode))        \
                            each(enum MHD_Result, MHD_is_feature_supported, (enum MHD_FEATURE feature), (feature))     \
                                each(void, MHD_destroy_response, (struct MHD_Response * response), (response))         \
                                    each(enum MHD_Result, MHD_add_response_header,                                     \
                                         (struct MHD_Response * response, const char *name, const char *value),        \
                                         (response, name, value))                                                      \
                                        each(enum MHD_Result, MHD_queue_response,                                      \
                                             (struct MHD_Connection * connection, unsigned status,                     \
                                              struct MHD_Response *response),                                          \
                                             (connection, status, response))

static struct {
    __typeof__(&MHD_start_daemon_va) MHD_start_daemon_va;
    __typeof__(&MHD_get_version) MHD_get_version;
#define MEMBER(type, name, ...) __typeof__(&name) name;
    FORWARDED(MEMBER)
} library;
static bool is_loaded;

static bool load_symbol(void *handle, const char *name, void *ret_function)
{
    return (*(void **)ret_function = dlsym(handle, name)) != NULL;
}

static void load_library(void)
{
    void *handle = dlopen(NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    is_loaded = handle && load_symbol(handle, "MHD_start_daemon_va", &library.MHD_start_daemon_va) &&
                load_symbol(handle, "MHD_get_version", &library.MHD_get_version);
#define FIND(type, name, ...) is_loaded = is_loaded && load_symbol(handle, #name, &library.name);
    FORWARDED(FIND)
}

static bool ensure_loaded(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_library);
    return is_loaded;
}

/* NULL: the library is missing or too old. */
const char *MHD_get_version(void)
{
    return ensure_loaded() ? library.MHD_get_version() : NULL;
}

/* NULL with errno ENOPKG: the library is missing or too old. */
struct MHD_Daemon *MHD_start_daemon(unsigned flags, uint16_t port, MHD_AcceptPolicyCallback accept,
                                    void *accept_context, MHD_AccessHandlerCallback handle, void *handle_context, ...)
{
    if (!ensure_loaded()) {
        errno = ENOPKG;
        return NULL;
    }
    va_list options;
    va_start(options, handle_context);
    struct MHD_Daemon *daemon =
        library.MHD_start_daemon_va(flags, port, accept, accept_context, handle, handle_context, options);
    va_end(options);
    return daemon;
}

#define FORWARD(type, name, parameters, arguments)                                                                     \
    type name parameters                                                                                               \
    {                                                                                                                  \
        return library.name arguments;                                                                                 \
    }
FORWARDED(FORWARD)
