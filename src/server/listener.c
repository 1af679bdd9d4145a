/* HTTP requests with bodies; see listener.h. */
#include "server/listener.h"

#include "base/log.h"
#include "serve/host.h"
#include "serve/http_daemon.h"
#include "server/bound_address.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#define CONNECTIONS_MAX  512
#define CLIENT_MAX       128                 /* connections of one address, if others than this machine can connect */
#define TIMEOUT_S        30                  /* without a byte */
#define CONNECTION_BYTES ((size_t)512 << 10) /* headers: a query may be in the URL */
#define REPLY_NS         60000000000ull
#define BODIES_MAX_BYTES ((size_t)128 << 20) /* of all requests */

struct listener {
    struct listener_options o;
    struct host_policy hosts;
    struct MHD_OptionItem more[3]; /* of the daemon */
    struct http_daemon *daemon;
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
        return access_allows(l->o.access, l->o.scope, http_header(connection, "Authorization"),
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
static enum MHD_Result reply_unauthorized(const struct listener *l, struct MHD_Connection *connection)
{
#define NEEDED(scope)                                                                                                  \
    "a token with the scope " scope " (or admin) is needed, in the header Authorization: Bearer TOKEN; "               \
    "`sonde token new --scope " scope "` prints a line for it\n"
    const char *text = l->o.scope == TOKEN_WRITE ? NEEDED("write") : NEEDED("read");
#undef NEEDED
    const struct http_reply reply = {
        .status = MHD_HTTP_UNAUTHORIZED, .content_type = "text/plain; charset=UTF-8", .authenticate = "Bearer"};
    return http_reply_static(connection, &reply, text, strlen(text));
}

/* Whether a request is refused, and then its reply. */
static bool is_refused(struct listener *l, struct MHD_Connection *connection, const char *method, enum MHD_Result *ret)
{
    const char *length = http_header(connection, "Content-Length");
    if (is_cross_site(connection))
        *ret = http_reply_text(connection, MHD_HTTP_FORBIDDEN, "requests from other sites are refused");
    else if (!is_allowed(l, connection))
        *ret = l->o.access
                   ? reply_unauthorized(l, connection)
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

int listener_start(const struct listener_options *options, struct listener **ret)
{
    _cleanup_free_ struct listener *l = calloc(1, sizeof(*l));
    struct bound_address bound;
    if (!l)
        return -ENOMEM;
    int r = bound_address_open(options->option, options->address, options->access, &bound);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = bound.fd;
    l->o = *options;
    l->hosts = (struct host_policy){
        .port = bound.port,
        .is_encrypted = options->certificate && options->certificate->chain,
        .loopback_only = bound.is_local,
    };
    const struct MHD_OptionItem more[] = {
        {MHD_OPTION_PER_IP_CONNECTION_LIMIT, bound.is_local ? 0 : CLIENT_MAX, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, l},
        {MHD_OPTION_END, 0, NULL},
    };
    memcpy(l->more, more, sizeof(more));
    const struct http_daemon_options daemon = {.fd = fd,
                                               .name = "server",
                                               .former_max_ns = REPLY_NS,
                                               .connections_max = CONNECTIONS_MAX,
                                               .timeout_s = TIMEOUT_S,
                                               .connection_bytes = CONNECTION_BYTES,
                                               .handle = handle,
                                               .context = l,
                                               .more = l->more};
    r = http_daemon_new(&daemon, options->certificate, &l->daemon);
    if (r == -ENOPKG)
        log_error("cannot listen on %s without libmicrohttpd.so.12: install the package libmicrohttpd12",
                  options->address);
    else if (r == -EAGAIN)
        log_error("cannot serve %s", options->address);
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
    http_daemon_free(l->daemon);
    free(l);
}

int listener_renew(struct listener *l, const struct certificate *certificate)
{
    return http_daemon_renew(l->daemon, certificate);
}

void listener_tick(struct listener *l)
{
    http_daemon_tick(l->daemon);
}

uint16_t listener_port(const struct listener *l)
{
    return l->hosts.port;
}
