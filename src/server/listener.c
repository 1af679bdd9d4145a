/* HTTP requests with bodies; see listener.h. */
#include "server/listener.h"

#include "base/clock.h"
#include "base/log.h"
#include "serve/host.h"
#include "serve/http_daemon.h"
#include "serve/origin.h"
#include "serve/readers.h"
#include "server/body_memory.h"
#include "server/bound_address.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define SECOND_NS        1000000000ull
#define CONNECTIONS_MAX  512
#define CLIENT_MAX       128 /* connections of one address, if others than this machine can connect */
#define TIMEOUT_S        30  /* without a byte */
#define HEADERS_NS       (60 * SECOND_NS)
#define REQUEST_NS       (300 * SECOND_NS) /* from the end of the headers to the end of the reply */
#define FORMER_NS        (60 * SECOND_NS)
#define BODIES_MAX_BYTES ((size_t)128 << 20) /* of all requests */

struct listener {
    struct listener_options o;
    struct host_policy hosts;
    struct MHD_OptionItem more[3]; /* of the daemon */
    struct http_daemon *daemon;
    struct readers *readers;
    struct body_memory *memory;
};

struct request {
    struct listener *listener;
    struct access_client client; /* its body takes a share of the memory */
    struct buf body;
    size_t held;
};

/* ---- the checks of a request before its body is read ---- */

static bool is_open(const struct listener *l, struct MHD_Connection *connection, const char *method, const char *path)
{
    return l->o.is_open && l->o.is_open(connection, method, path);
}

static bool is_allowed(const struct listener *l, struct MHD_Connection *connection, const char *method,
                       const char *path, struct access_client *ret_client)
{
    const char *host = http_host(connection);
    const struct sockaddr *address = http_client_address(connection);
    *ret_client = access_client_without_token(address);
    if (!l->o.access)
        return host && host_allowed(&l->hosts, host);
    return is_open(l, connection, method, path) ||
           (l->o.is_signed_in && l->o.is_signed_in(l->o.context, connection, method, path, ret_client)) ||
           access_allows(l->o.access, l->o.scope_of(path), http_header(connection, "Authorization"), address,
                         ret_client);
}

/* Pages of other sites, or of other ports of this one, must not use a visitor's browser. */
static bool is_cross_site(const struct listener *l, struct MHD_Connection *connection, const char *method,
                          const char *path)
{
    const char *site = http_header(connection, "Sec-Fetch-Site"), *mode = http_header(connection, "Sec-Fetch-Mode");
    const char *host = http_host(connection), *origin = http_header(connection, "Origin");
    const char *after = origin ? strstr(origin, "://") : NULL;
    const bool follows_link = mode && strcmp(mode, "navigate") == 0 && is_open(l, connection, method, path);
    return (site && strcmp(site, "cross-site") == 0 && !follows_link) ||
           (origin && !(after && host && strcasecmp(after + strlen("://"), host) == 0));
}

/* Programs ask here, not people: a browser must not ask for a token, and then send it with every page's requests. */
static enum MHD_Result reply_unauthorized(struct MHD_Connection *connection, enum token_scope scope)
{
    const struct http_reply reply = {
        .status = MHD_HTTP_UNAUTHORIZED, .content_type = "text/plain; charset=UTF-8", .authenticate = "Bearer"};
    const char *name = token_scope_name(scope);
    _cleanup_buf_ struct buf text = {0};
    buf_printf(&text,
               "a token with the scope %s (or admin) is needed, in the header Authorization: Bearer TOKEN; "
               "`sonde token new --scope %s` prints a line for it\n",
               name, name);
    return http_reply_buf(connection, &reply, &text);
}

static enum MHD_Result reply_busy(struct MHD_Connection *connection)
{
    return http_reply_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many requests at once");
}

/* Whether a request is refused, and then its reply; else its client. */
static bool is_refused(struct listener *l, struct MHD_Connection *connection, const char *method, const char *path,
                       struct access_client *ret_client, enum MHD_Result *ret)
{
    const char *length = http_header(connection, "Content-Length");
    const unsigned long long size = length ? strtoull(length, NULL, 10) : 0;
    if (is_cross_site(l, connection, method, path))
        *ret = http_reply_text(connection, MHD_HTTP_FORBIDDEN, "requests from other sites are refused");
    else if (!is_allowed(l, connection, method, path, ret_client))
        *ret = l->o.access
                   ? reply_unauthorized(connection, l->o.scope_of(path))
                   : http_reply_text(connection, MHD_HTTP_FORBIDDEN,
                                     "exactly one Host header is accepted, and only with names of this machine");
    else if (!rate_limit_allows(l->o.rate_limit, ret_client->number))
        *ret = http_reply_text(connection, MHD_HTTP_TOO_MANY_REQUESTS,
                               "too many requests a second from this client: try again later");
    else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 && strcmp(method, "POST") != 0)
        *ret = http_reply_not_allowed(connection, "GET, HEAD, POST");
    else if (size > l->o.body_max_bytes)
        *ret = http_reply_text(connection, MHD_HTTP_CONTENT_TOO_LARGE, "the body is larger than %zu bytes",
                               l->o.body_max_bytes);
    else if (!body_memory_allows(l->memory, ret_client->number, size))
        *ret = reply_busy(connection);
    else
        return false;
    return true;
}

/* ---- the body ---- */

static bool take_body(struct request *r, const char *data, size_t size)
{
    if (!body_memory_take(r->listener->memory, r->client.number, size))
        return false;
    r->held += size;
    return buf_append(&r->body, data, size) == 0;
}

static void drop_body(struct request *r)
{
    buf_clear(&r->body);
    body_memory_give(r->listener->memory, r->client.number, r->held);
    r->held = 0;
}

static enum MHD_Result answer_request(struct request *r, struct MHD_Connection *connection, const char *method,
                                      const char *path)
{
    const struct listener *l = r->listener;
    if (r->body.error == -EFBIG)
        return http_reply_text(connection, MHD_HTTP_CONTENT_TOO_LARGE, "the body is larger than %zu bytes",
                               l->o.body_max_bytes);
    if (r->body.error)
        return reply_busy(connection);
    const struct listener_request request = {
        .connection = connection, .method = method, .path = path, .body = &r->body, .client = &r->client};
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
    struct access_client client = {0};
    (void)version;
    if (!r) {
        if (http_reader(connection))
            reader_asked(l->readers, http_reader(connection));
        if (is_refused(l, connection, method, path, &client, &result))
            return result;
        *request = r = calloc(1, sizeof(*r));
        if (!r)
            return MHD_NO;
        *r = (struct request){.listener = l, .client = client, .body.max_bytes = l->o.body_max_bytes};
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

static void on_connection(void *context, struct MHD_Connection *connection, void **reader,
                          enum MHD_ConnectionNotificationCode what)
{
    const struct listener *l = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *reader = readers_add(l->readers, fd, origin_of_socket(fd));
        if (!*reader)
            shutdown(fd, SHUT_RDWR); /* a former daemon has connections, too */
    } else if (*reader) {
        readers_remove(l->readers, *reader);
    }
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode why)
{
    const struct listener *l = context;
    struct request *r = *request;
    (void)why;
    if (http_reader(connection))
        reader_answered(l->readers, http_reader(connection));
    if (!r)
        return;
    drop_body(r);
    free(r);
    *request = NULL;
}

/* ---- start and end ---- */

int listener_start(const struct listener_options *options, struct listener **ret)
{
    _cleanup_(listener_freep) struct listener *l = calloc(1, sizeof(*l));
    struct bound_address bound;
    if (!l)
        return -ENOMEM;
    int r = bound_address_open(options->option, options->address, options->access, &bound);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = bound.fd;
    const struct readers_options readers = {.max = CONNECTIONS_MAX,
                                            .per_origin = bound.is_local ? CONNECTIONS_MAX : CLIENT_MAX,
                                            .request_ns = HEADERS_NS,
                                            .reply_ns = REQUEST_NS,
                                            .now_ns = clock_monotonic_ns};
    r = readers_new(&readers, &l->readers) ?: body_memory_new(BODIES_MAX_BYTES, &l->memory);
    if (r < 0)
        return r;
    l->o = *options;
    l->hosts = (struct host_policy){
        .port = bound.port,
        .is_encrypted = options->certificate && options->certificate->chain,
        .loopback_only = bound.is_local,
    };
    const struct MHD_OptionItem more[] = {
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, l},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, l},
        {MHD_OPTION_END, 0, NULL},
    };
    memcpy(l->more, more, sizeof(more));
    const struct http_daemon_options daemon = {.fd = fd,
                                               .name = "server",
                                               .former_max_ns = FORMER_NS,
                                               .connections_max = CONNECTIONS_MAX + READERS_SPARE,
                                               .timeout_s = TIMEOUT_S,
                                               .connection_bytes = options->header_bytes,
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
    readers_free(l->readers);
    body_memory_free(l->memory);
    free(l);
}

int listener_renew(struct listener *l, const struct certificate *certificate)
{
    return http_daemon_renew(l->daemon, certificate);
}

void listener_tick(struct listener *l)
{
    readers_tick(l->readers);
    http_daemon_tick(l->daemon);
}

uint16_t listener_port(const struct listener *l)
{
    return l->hosts.port;
}
