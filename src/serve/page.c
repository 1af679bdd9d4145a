/* HTTP server of the page: the socket, libmicrohttpd's threads, and the checks before routing. One thread per
 * connection, as writing a profile may take a second and must not delay /healthz; the number of connections, and the
 * memory and time of each, are bounded. */
#include "serve/page.h"

#include "base/address.h"
#include "base/clock.h"
#include "base/host_name.h"
#include "base/log.h"
#include "serve/host.h"
#include "serve/http.h"
#include "serve/readers.h"
#include "serve/routes.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#define PAGE_CONNECTIONS_MAX (READERS_MAX + READERS_SPARE)
#define PAGE_ANSWERS_BYTES   ((uint64_t)16 << 20)
#define PAGE_SLOW_NS         10000000000ull
#define PAGE_TIMEOUT_S       20
#define PAGE_HEADER_BYTES    ((size_t)16 << 10) /* per connection: request line, request headers and reply headers */
#define PAGE_STACK_BYTES     ((size_t)512 << 10)

struct page {
    struct MHD_Daemon *daemon;
    struct routes *routes;
    struct readers *readers;
    struct host_policy hosts;
    char node_name[HOST_NAME_MAX_BYTES];
    char *allowed_hosts;
};

static enum MHD_Result count_host(void *count, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    (void)value;
    *(unsigned *)count += strcasecmp(name, "Host") == 0;
    return MHD_YES;
}

/* NULL: no Host header, or several: a proxy may have used another one (RFC 9112, 3.2). */
static const char *find_host(struct MHD_Connection *connection)
{
    unsigned count = 0;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, count_host, &count);
    return count == 1 ? http_header(connection, "Host") : NULL;
}

static enum MHD_Result refuse_host(struct page *p, struct MHD_Connection *connection, const char *host)
{
    if (!host)
        return http_reply_text(connection, MHD_HTTP_BAD_REQUEST, "exactly one Host header is needed");
    return http_reply_text(
        connection, MHD_HTTP_FORBIDDEN,
        "This page only accepts the names of its own host (port %u), to prevent DNS rebinding. Behind a proxy or a tunnel, add the name in your browser's address bar to page.allowed_hosts.",
        p->hosts.port);
}

/* Pages of other sites must not make a visitor's browser request profiles, even though they could not read the replies.
 * Navigation by links is allowed. */
static bool cross_site(struct MHD_Connection *connection)
{
    const char *site = http_header(connection, "Sec-Fetch-Site");
    const char *mode = http_header(connection, "Sec-Fetch-Mode");
    return site && strcmp(site, "cross-site") == 0 && !(mode && strcmp(mode, "navigate") == 0);
}

static bool has_body(struct MHD_Connection *connection)
{
    const char *length = http_header(connection, "Content-Length");
    return http_header(connection, "Transfer-Encoding") || (length && strcmp(length, "0") != 0);
}

/* Checks Host, method, body and origin. Replies to a request that is refused and sets `*ret_refused`. */
static enum MHD_Result check_request(struct page *p, struct MHD_Connection *connection, const char *method,
                                     bool *ret_refused)
{
    const char *host = find_host(connection);
    *ret_refused = true;
    if (!host || !host_allowed(&p->hosts, host))
        return refuse_host(p, connection, host);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return http_reply_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are supported");
    if (has_body(connection))
        return http_reply_text(connection, MHD_HTTP_BAD_REQUEST, "a request body is not accepted");
    if (cross_site(connection))
        return http_reply_text(connection, MHD_HTTP_FORBIDDEN, "requests from other sites are refused");
    *ret_refused = false;
    return MHD_YES;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **reader,
                          enum MHD_ConnectionNotificationCode what)
{
    struct page *p = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *reader =
            readers_add(p->readers, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    else if (*reader)
        readers_remove(p->readers, *reader);
}

static struct reader *reader_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode why)
{
    struct page *p = context;
    struct reader *reader = reader_of(connection);
    (void)request;
    (void)why;
    if (reader)
        reader_answered(p->readers, reader);
}

/* libmicrohttpd calls this once when the headers are complete, and again if no reply was queued. A reply in the first
 * call closes the connection, which is needed when an unwanted body may follow. */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **request)
{
    struct page *p = context;
    bool refused;
    (void)version;
    (void)upload;
    if (!*request) {
        *request = p;
        if (reader_of(connection))
            reader_asked(p->readers, reader_of(connection));
        return check_request(p, connection, method, &refused);
    }
    if (*upload_size)
        return MHD_NO;
    return routes_answer(p->routes, connection, url);
}

/* Percent-decodes paths and parameters as libmicrohttpd does, but replaces a NUL by \1: text after a NUL would be
 * ignored by all checks. */
static size_t unescape(void *context, struct MHD_Connection *connection, char *text)
{
    size_t size = MHD_http_unescape(text);
    (void)context;
    (void)connection;
    for (size_t i = 0; i < size; i++)
        if (!text[i])
            text[i] = '\1';
    return size;
}

static void log_from_library(void *context, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void log_from_library(void *context, const char *format, va_list args)
{
    char text[256];
    (void)context;
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = '\0';
    log_debug("page: %s", text);
}

static bool is_loopback(const union address *a)
{
    if (a->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
    return (ntohl(a->v4.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}

/* Opens a listening socket; writes the bound address (with the port) back to `address`. */
static int listen_at(union address *address, socklen_t size, int *ret_fd)
{
    const int on = 1;
    _cleanup_close_ int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 || bind(fd, &address->any, size) < 0 ||
        listen(fd, PAGE_CONNECTIONS_MAX) < 0 || getsockname(fd, &address->any, &size) < 0)
        return -errno;
    *ret_fd = take_fd(&fd);
    return 0;
}

/* Blocks all signals in the daemon's threads: the program's own threads handle them. */
static struct MHD_Daemon *start_daemon(struct page *p, int fd)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC |
            MHD_USE_ERROR_LOG,
        0, NULL, NULL, handle, p, MHD_OPTION_EXTERNAL_LOGGER, log_from_library, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)PAGE_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)PAGE_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, PAGE_HEADER_BYTES, MHD_OPTION_THREAD_STACK_SIZE,
        PAGE_STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, p, MHD_OPTION_NOTIFY_COMPLETED, on_completed, p, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

int page_start(const struct page_options *options, const struct page_data *data, struct page **ret)
{
    union address address;
    socklen_t address_size;
    _cleanup_close_ int fd = -1;
    _cleanup_(page_freep) struct page *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    int r = address_parse(options->listen, &address, &address_size);
    if (r < 0)
        return r;
    const struct readers_options readers = {.answers_max_bytes = PAGE_ANSWERS_BYTES,
                                            .slow_ns = PAGE_SLOW_NS,
                                            .now_ns = clock_monotonic_ns,
                                            .hold = data->hold,
                                            .context = data->context};
    r = readers_new(&readers, &p->readers);
    if (r < 0)
        return r;
    r = routes_new(data, p->readers, options->without_ui, &p->routes);
    if (r < 0)
        return r;
    if (options->allowed_hosts && !(p->allowed_hosts = strdup(options->allowed_hosts)))
        return -ENOMEM;
    if (gethostname(p->node_name, sizeof(p->node_name) - 1) < 0)
        p->node_name[0] = '\0';
    r = listen_at(&address, address_size, &fd);
    if (r < 0)
        return r;
    p->hosts = (struct host_policy){
        .port = ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port),
        .loopback_only = is_loopback(&address),
        .node_name = p->node_name[0] ? p->node_name : NULL,
        .allowed = p->allowed_hosts,
    };
    errno = 0;
    p->daemon = start_daemon(p, fd);
    if (!p->daemon)
        return errno == ENOPKG ? -ENOPKG : -EAGAIN;
    take_fd(&fd); /* the daemon closes it */
    *ret = take_ptr(p);
    return 0;
}

uint16_t page_port(const struct page *p)
{
    return p->hosts.port;
}

bool page_is_local(const struct page *p)
{
    return p->hosts.loopback_only;
}

void page_free(struct page *p)
{
    if (!p)
        return;
    if (p->daemon)
        MHD_stop_daemon(p->daemon); /* waits for replies in progress, which use the routes */
    routes_free(p->routes);
    readers_free(p->readers);
    free(p->allowed_hosts);
    free(p);
}
