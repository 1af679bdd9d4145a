/* One listening socket of the page; see door.h. */
#include "serve/door.h"

#include "base/clock.h"
#include "base/log.h"
#include "serve/http.h"
#include "serve/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX (READERS_MAX + READERS_SPARE)
#define TIMEOUT_S       20                 /* without a byte; readers.h has limits of the whole time */
#define HEADER_BYTES    ((size_t)16 << 10) /* per connection: request line, request headers and reply headers */
#define STACK_BYTES     ((size_t)512 << 10)

/* GnuTLS: TLS 1.2 and 1.3, and of 1.2 only ciphers that authenticate, with keys that are new for each connection. */
#define TLS_PRIORITIES                                                                                                 \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:+CHACHA20-POLY1305"

struct door {
    struct door_options o;
    struct MHD_Daemon *daemon;
    struct MHD_Daemon *former; /* does not accept connections any more; NULL: none */
    int former_fd;             /* the same listening socket, to be closed with it */
    uint64_t former_ns;        /* since when */
};

static enum MHD_Result refuse_host(struct door *d, struct MHD_Connection *connection, const char *host)
{
    if (!host)
        return http_reply_text(connection, MHD_HTTP_BAD_REQUEST, "exactly one Host header is needed");
    return http_reply_text(
        connection, MHD_HTTP_FORBIDDEN,
        "This page only accepts the names of its own host (port %u), to prevent DNS rebinding. Behind a proxy or a tunnel, add the name in your browser's address bar to page.allowed_hosts.",
        d->o.hosts->port);
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

/* /healthz is open: what asks for it, such as a kubelet, has no token. */
static bool is_allowed(const struct door *d, struct MHD_Connection *connection, const char *url)
{
    if (!d->o.access || strcmp(url, "/healthz") == 0)
        return true;
    return access_allows(d->o.access, http_header(connection, "Authorization"),
                         MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
}

/* Checks Host, method, body, origin and token. Replies to a request that is refused and sets `*ret_refused`. */
static enum MHD_Result check_request(struct door *d, struct MHD_Connection *connection, const char *url,
                                     const char *method, bool *ret_refused)
{
    const char *host = http_host(connection);
    *ret_refused = true;
    if (d->o.hosts && (!host || !host_allowed(d->o.hosts, host)))
        return refuse_host(d, connection, host);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return http_reply_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are supported");
    if (has_body(connection))
        return http_reply_text(connection, MHD_HTTP_BAD_REQUEST, "a request body is not accepted");
    if (cross_site(connection))
        return http_reply_text(connection, MHD_HTTP_FORBIDDEN, "requests from other sites are refused");
    if (!is_allowed(d, connection, url))
        return http_reply_text(
            connection, MHD_HTTP_UNAUTHORIZED,
            "a token is needed: in a browser as the password, with any user name; else in the header Authorization: Bearer");
    *ret_refused = false;
    return MHD_YES;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **reader,
                          enum MHD_ConnectionNotificationCode what)
{
    struct door *d = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *reader = readers_add(d->o.readers, fd, origin_of_socket(fd));
        if (!*reader)
            shutdown(fd, SHUT_RDWR); /* several sockets share the places */
    } else if (*reader) {
        readers_remove(d->o.readers, *reader);
    }
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode why)
{
    struct door *d = context;
    struct reader *reader = http_reader(connection);
    (void)request;
    if (reader && why == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED)
        reader_stalled(d->o.readers, reader);
    else if (reader)
        reader_answered(d->o.readers, reader);
}

/* libmicrohttpd calls this once when the headers are complete, and again if no reply was queued. A reply in the first
 * call closes the connection, which is needed when an unwanted body may follow. */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **request)
{
    struct door *d = context;
    bool refused;
    (void)version;
    (void)upload;
    if (!*request) {
        *request = d;
        if (http_reader(connection))
            reader_asked(d->o.readers, http_reader(connection));
        return check_request(d, connection, url, method, &refused);
    }
    if (*upload_size)
        return MHD_NO;
    return routes_answer(d->o.routes, connection, url);
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

/* Blocks all signals in the daemon's threads: the program's own threads handle them. */
static struct MHD_Daemon *start_daemon(struct door *d, int fd, const struct certificate *certificate)
{
    const bool is_encrypted = certificate && certificate->chain;
    const struct MHD_OptionItem tls[] = {
        {is_encrypted ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, is_encrypted ? certificate->chain : NULL},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, is_encrypted ? certificate->key : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC |
                             MHD_USE_ERROR_LOG | (is_encrypted ? (unsigned)MHD_USE_TLS : 0),
                         0, NULL, NULL, handle, d, MHD_OPTION_EXTERNAL_LOGGER, http_log_from_library, (void *)"page",
                         MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         HEADER_BYTES, MHD_OPTION_THREAD_STACK_SIZE, STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                         MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection, d,
                         MHD_OPTION_NOTIFY_COMPLETED, on_completed, d, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

static int try_start(struct door *d, int fd, const struct certificate *certificate, struct MHD_Daemon **ret)
{
    errno = 0;
    struct MHD_Daemon *daemon = start_daemon(d, fd, certificate);
    if (daemon) {
        *ret = daemon;
        return 0;
    }
    if (errno == ENOPKG)
        return -ENOPKG;
    if (!certificate || !certificate->chain)
        return -EAGAIN;
    log_error(
        "page.tls_certificate and page.tls_key cannot be used: %s",
        MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES
            ? "the first must have a certificate in PEM, the second the key of that certificate, without a password"
            : "this libmicrohttpd has no TLS");
    return -EKEYREJECTED;
}

int door_new(const struct door_options *options, const struct certificate *certificate, struct door **ret)
{
    _cleanup_free_ struct door *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->o = *options;
    const int r = try_start(d, d->o.fd, certificate, &d->daemon);
    if (r < 0)
        return r;
    *ret = take_ptr(d);
    return 0;
}

static void stop_former(struct door *d)
{
    if (!d->former)
        return;
    MHD_stop_daemon(d->former);
    close(d->former_fd); /* not earlier: the thread that accepts may still wait on it */
    d->former = NULL;
}

int door_renew(struct door *d, const struct certificate *certificate)
{
    struct MHD_Daemon *next;
    _cleanup_close_ int fd = fcntl(d->o.fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    const int r = try_start(d, fd, certificate, &next);
    if (r < 0)
        return r;
    stop_former(d);
    d->former_fd = MHD_quiesce_daemon(d->daemon);
    d->former = d->daemon;
    d->former_ns = clock_monotonic_ns();
    d->daemon = next;
    d->o.fd = take_fd(&fd);
    return 0;
}

void door_tick(struct door *d)
{
    if (d->former && (MHD_get_daemon_info(d->former, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections == 0 ||
                      clock_monotonic_ns() - d->former_ns > d->o.former_max_ns))
        stop_former(d);
}

void door_free(struct door *d)
{
    if (!d)
        return;
    stop_former(d);
    MHD_stop_daemon(d->daemon);
    free(d);
}
