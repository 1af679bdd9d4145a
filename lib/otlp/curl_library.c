/* Loads libcurl on first use, for the agent and its subcommands: most runs neither send nor download, and libcurl
 * brings two dozen libraries, which cost each start 4 ms of CPU and each process the memory of their relocations. The
 * functions here have libcurl's names and forward their arguments, so users of <curl/curl.h> need no changes.
 * libsonde-otlp.so, which is itself loaded on demand, links libcurl directly. The functions are hidden, so that a
 * libcurl loaded by other code is not affected.
 *
 * curl_global_init loads libcurl. Before it only curl_easy_strerror may be called, which then returns the reason why
 * libcurl cannot be loaded. It is never unloaded, because its dependencies have threads and exit handlers. */
#define curl_url_get curl_url_get_as_declared /* declared with `const`, or without in older headers */
#include <curl/curl.h>
#undef curl_url_get
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define NAME "libcurl.so.4"

/* These are type-checking macros in the header. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

CURLUcode curl_url_get(const CURLU *url, CURLUPart what, char **ret, unsigned flags);

#define FORWARDED(each)                                                                                                \
    each(CURL *, curl_easy_init, (void), ()) each(void, curl_easy_cleanup, (CURL * curl),                              \
                                                  (curl)) each(CURLcode, curl_easy_perform, (CURL * curl), (curl))     \
        each(char *, curl_easy_unescape, (CURL * curl, const char *text, int size, int *ret_size),                     \
             (curl, text, size, ret_size)) each(void, curl_free, (void *p), (p))                                       \
            each(curl_version_info_data *, curl_version_info, (CURLversion age),                                       \
                 (age)) each(struct curl_slist *, curl_slist_append, (struct curl_slist * list, const char *text),     \
                             (list, text)) each(void, curl_slist_free_all, (struct curl_slist * list), (list))         \
                each(CURLU *, curl_url, (void), ()) each(void, curl_url_cleanup, (CURLU * url), (url))                 \
                    each(CURLUcode, curl_url_get, (const CURLU *url, CURLUPart what, char **ret, unsigned flags),      \
                         (url, what, ret, flags))                                                                      \
                        each(CURLUcode, curl_url_set, (CURLU * url, CURLUPart what, const char *text, unsigned flags), \
                             (url, what, text, flags)) each(CURLM *, curl_multi_init, (void), ())                      \
                            each(CURLMcode, curl_multi_cleanup, (CURLM * multi), (multi))                              \
                                each(CURLMcode, curl_multi_add_handle, (CURLM * multi, CURL * curl), (multi, curl))    \
                                    each(CURLMcode, curl_multi_remove_handle, (CURLM * multi, CURL * curl),            \
                                         (multi, curl)) each(CURLMcode, curl_multi_perform,                            \
                                                             (CURLM * multi, int *ret_running), (multi, ret_running))  \
                                        each(CURLMsg *, curl_multi_info_read, (CURLM * multi, int *ret_left),          \
                                             (multi, ret_left)) each(CURLMcode, curl_multi_poll,                       \
                                                                     (CURLM * multi, struct curl_waitfd * extra,       \
                                                                      unsigned count, int timeout_ms, int *ret_count), \
                                                                     (multi, extra, count, timeout_ms, ret_count))

/* The functions that need more than forwarding. */
#define OTHERS(each) each(curl_global_init) each(curl_easy_strerror) each(curl_easy_setopt) each(curl_easy_getinfo)

static struct {
#define MEMBER(name, ...)                 __typeof__(&name) name;
#define MEMBER_FORWARDED(type, name, ...) MEMBER(name)
    FORWARDED(MEMBER_FORWARDED) OTHERS(MEMBER)
} library;
static bool is_loaded;
static char load_error[256];

static bool find_symbol(void *handle, const char *name, void *ret_function)
{
    return (*(void **)ret_function = dlsym(handle, name)) != NULL;
}

static void load(void)
{
    void *handle = dlopen(NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    is_loaded = handle != NULL;
#define FIND(name)                      is_loaded = is_loaded && find_symbol(handle, #name, &library.name);
#define FIND_FORWARDED(type, name, ...) FIND(name)
    FORWARDED(FIND_FORWARDED)
    OTHERS(FIND) if (!is_loaded) snprintf(load_error, sizeof(load_error), "%s (the package libcurl4)", dlerror());
}

CURLcode curl_global_init(long flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_loaded ? library.curl_global_init(flags) : CURLE_FAILED_INIT;
}

const char *curl_easy_strerror(CURLcode code)
{
    return is_loaded ? library.curl_easy_strerror(code) : load_error;
}

/* The range of an option determines the type of its value. */
CURLcode curl_easy_setopt(CURL *curl, CURLoption option, ...)
{
    CURLcode code;
    va_list value;
    va_start(value, option);
    if (option < CURLOPTTYPE_OBJECTPOINT)
        code = library.curl_easy_setopt(curl, option, va_arg(value, long));
    else if (option >= CURLOPTTYPE_OFF_T && option < CURLOPTTYPE_BLOB)
        code = library.curl_easy_setopt(curl, option, va_arg(value, curl_off_t));
    else
        code = library.curl_easy_setopt(curl, option, va_arg(value, void *));
    va_end(value);
    return code;
}

CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ...)
{
    va_list value;
    va_start(value, info);
    CURLcode code = library.curl_easy_getinfo(curl, info, va_arg(value, void *));
    va_end(value);
    return code;
}

#define FORWARD(type, name, parameters, arguments)                                                                     \
    type name parameters                                                                                               \
    {                                                                                                                  \
        return library.name arguments;                                                                                 \
    }
FORWARDED(FORWARD)
