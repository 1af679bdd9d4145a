/* HTTP requests with bodies; see listener.h. */
#include "server/listener.h"

#include "base/address.h"
#include "base/log.h"
#include "serve/host.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#define CONNECTIONS_MAX  512
#define CLIENT_MAX       128                 /* connections of one address, if others than this machine can connect */
#define TIMEOUT_S        30                  /* without a byte */
#define CONNECTION_BYTES ((size_t)512 << 10) /* headers: a query may be in the URL */
#define STACK_BYTES      ((size_t)512 << 10)
#define BODIES_MAX_BYTES ((size_t)128 << 20) /* of all requests */

struct listener {
    struct listener_options o;
    struct host_policy hosts;
    struct MHD_Daemon *daemon;
    atomic_size_t body_bytes;
};

struct request {
    struct listener *listener;
    struct buf body;
    size_t held; /* of body_bytes */
};

/* ---- the checks of a request before its body is read ---- */

static bool is_allowed(const struct listener *l, struct MHD_Connection *connection)
{
    const char *host = http_host(connection);
    if (l->o.access)
        return access_allows(l->o.access, TOKEN_READ, http_header(connection, "Authorization"),
                             MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
    return host && host_allowed(&l->hosts, host);
}

/* Pages of other sites, or of other ports of this one, must not use a visitor's browser. */
static bool is_cross_site(struct MHD_Connection *connection)
{
    const char *site = http_header(connection, "Sec-Fetch-Site"), *host = http_host(connection);
    const char *origin = http_header(connection, "Origin"), *after = origin ? strstr(origin, "://") : NULL;
    return (site && strcmp(site, "cross-site") == 0) ||
           (origin && !(after && host && strcasecmp(after + strlen("://"), host) == 0));
}

/* Programs ask here, not people: a browser must not ask for a token, and then send it with every page's requests. */
static enum MHD_Result reply_unauthorized(struct MHD_Connection *connection)
{
    static const char text[] = "a token is needed, in the header Authorization: Bearer TOKEN\n";
    const struct http_reply reply = {
        .status = MHD_HTTP_UNAUTHORIZED, .content_type = "text/plain; charset=UTF-8", .authenticate = "Bearer"};
    return http_reply_static(connection, &reply, text, sizeof(text) - 1);
}

/* Whether a request is refused, and then its reply. */
static bool is_refused(struct listener *l, struct MHD_Connection *connection, const char *method, enum MHD_Result *ret)
{
    const char *length = http_header(connection, "Content-Length");
    if (is_cross_site(connection))
        *ret = http_reply_text(connection, MHD_HTTP_FORBIDDEN, "requests from other sites are refused");
    else if (!is_allowed(l, connection))
        *ret = l->o.access
                   ? reply_unauthorized(connection)
                   : http_reply_text(connection, MHD_HTTP_FORBIDDEN,
                                     "exactly one Host header is accepted, and only with names of this machine");
    else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 && strcmp(method, "POST") != 0)
        *ret = http_reply_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET, HEAD and POST are supported");
    else if (length && strtoull(length, NULL, 10) > l->o.body_max_bytes)
        *ret = http_reply_text(connection, MHD_HTTP_CONTENT_TOO_LARGE, "the body is larger than %zu bytes",
                               l->o.body_max_bytes);
    else
        return false;
    return true;
}

/* ---- the body ---- */

static bool take_body(struct request *r, const char *data, size_t size)
{
    struct listener *l = r->listener;
    const size_t before = atomic_fetch_add(&l->body_bytes, size);
    r->held += size;
    return before + size <= BODIES_MAX_BYTES && buf_append(&r->body, data, size) == 0;
}

static void drop_body(struct request *r)
{
    buf_clear(&r->body);
    atomic_fetch_sub(&r->listener->body_bytes, r->held);
    r->held = 0;
}

static enum MHD_Result answer_request(struct request *r, struct MHD_Connection *connection, const char *method,
                                      const char *path)
{
    const struct listener *l = r->listener;
    if (r->body.error == -EFBIG)
        return http_reply_text(connection, MHD_HTTP_CONTENT_TOO_LARGE, "the body is larger than %zu bytes",
                               l->o.body_max_bytes);
    if (r->body.error || atomic_load(&r->listener->body_bytes) > BODIES_MAX_BYTES)
        return http_reply_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many requests at once");
    const struct listener_request request = {
        .connection = connection, .method = method, .path = path, .body = &r->body};
    return l->o.answer(l->o.context, &request);
}

/* Called when the headers are complete, for each part of the body, and at its end. A reply to the first call closes the
 * connection, so that the body of a refused request is not read. */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **request)
{
    struct listener *l = context;
    struct request *r = *request;
    enum MHD_Result result;
    (void)version;
    if (!r) {
        if (is_refused(l, connection, method, &result))
            return result;
        *request = r = calloc(1, sizeof(*r));
        if (!r)
            return MHD_NO;
        *r = (struct request){.listener = l, .body.max_bytes = l->o.body_max_bytes};
        return MHD_YES;
    }
    if (*upload_size) {
        if (!r->body.error && !take_body(r, upload, *upload_size)) {
            const int error = buf_error(&r->body);
            drop_body(r);
            r->body.error = error ? error : -ENOMEM;
        }
        *upload_size = 0;
        return MHD_YES;
    }
    return answer_request(r, connection, method, path);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode why)
{
    struct request *r = *request;
    (void)context;
    (void)connection;
    (void)why;
    if (!r)
        return;
    drop_body(r);
    free(r);
    *request = NULL;
}

/* ---- start and end ---- */

static int start_daemon(struct listener *l, int fd)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the main thread handles signals */
    errno = 0;
    l->daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC |
                             MHD_USE_ERROR_LOG,
                         0, NULL, NULL, handle, l, MHD_OPTION_EXTERNAL_LOGGER, http_log_from_library, (void *)"server",
                         MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                         MHD_OPTION_PER_IP_CONNECTION_LIMIT, l->hosts.loopback_only ? 0 : (unsigned)CLIENT_MAX,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         CONNECTION_BYTES, MHD_OPTION_THREAD_STACK_SIZE, STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                         MHD_OPTION_NOTIFY_COMPLETED, on_completed, l, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return l->daemon ? 0 : errno == ENOPKG ? -ENOPKG : -EAGAIN;
}

int listener_start(const struct listener_options *options, struct listener **ret)
{
    _cleanup_free_ struct listener *l = calloc(1, sizeof(*l));
    union address address;
    socklen_t size;
    _cleanup_close_ int fd = -1;
    if (!l)
        return -ENOMEM;
    if (address_parse(options->address, &address, &size) < 0) {
        log_error("%s: '%s' is not ADDRESS:PORT, such as 127.0.0.1:4318", options->option, options->address);
        return -EINVAL;
    }
    if (!address_is_loopback(&address) && !options->access) {
        log_error(
            "%s: %s can be reached by other machines: give --token-file as well (`sonde token new` makes its lines)",
            options->option, options->address);
        return -EINVAL;
    }
    int r = address_listen(&address, size, &fd);
    if (r < 0)
        return log_errno(r, "cannot listen on %s (%s chooses another address)", options->address, options->option);
    l->o = *options;
    l->hosts = (struct host_policy){
        .port = ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port),
        .loopback_only = address_is_loopback(&address)};
    r = start_daemon(l, fd);
    if (r == -ENOPKG)
        log_error("cannot listen on %s without libmicrohttpd.so.12: install the package libmicrohttpd12",
                  options->address);
    if (r < 0)
        return r;
    take_fd(&fd); /* the daemon closes it */
    *ret = take_ptr(l);
    return 0;
}

void listener_free(struct listener *l)
{
    if (!l)
        return;
    MHD_stop_daemon(l->daemon);
    free(l);
}

uint16_t listener_port(const struct listener *l)
{
    return l->hosts.port;
}

bool listener_is_local(const struct listener *l)
{
    return l->hosts.loopback_only;
}
