/* One listening socket of the page; see door.h. */
#include "serve/door.h"

#include "serve/http.h"
#include "serve/http_daemon.h"
#include "serve/origin.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define CONNECTIONS_MAX (DOOR_READERS_MAX + READERS_SPARE)
#define TIMEOUT_S       20                 /* without a byte; readers.h has limits of the whole time */
#define HEADER_BYTES    ((size_t)16 << 10) /* per connection: request line, request headers and reply headers */

struct door {
    struct door_options o;
    struct MHD_OptionItem more[4]; /* of the daemon */
    struct http_daemon *daemon;
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

/* Where clients need a token, the name does not matter: a browser does not send the token that it has for this page to
 * a site with another name, even if that name resolves to this machine. */
static bool is_host_allowed(const struct door *d, const char *host)
{
    return (d->o.access && access_needs_token(d->o.access)) || host_allowed(d->o.hosts, host);
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
    return access_allows(d->o.access, TOKEN_READ, http_header(connection, "Authorization"),
                         http_client_address(connection), NULL);
}

/* Checks Host, method, body, origin and token. Replies to a request that is refused and sets `*ret_refused`. */
static enum MHD_Result check_request(struct door *d, struct MHD_Connection *connection, const char *url,
                                     const char *method, bool *ret_refused)
{
    const char *host = http_host(connection);
    *ret_refused = true;
    if (d->o.hosts && (!host || !is_host_allowed(d, host)))
        return refuse_host(d, connection, host);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return http_reply_not_allowed(connection, "GET, HEAD");
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
int door_new(const struct door_options *options, const struct certificate *certificate, struct door **ret)
{
    _cleanup_free_ struct door *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->o = *options;
    const struct MHD_OptionItem more[] = {
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)unescape, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, d},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, d},
        {MHD_OPTION_END, 0, NULL},
    };
    memcpy(d->more, more, sizeof(more));
    const struct http_daemon_options daemon = {.fd = d->o.fd,
                                               .name = "page",
                                               .former_max_ns = d->o.former_max_ns,
                                               .connections_max = CONNECTIONS_MAX,
                                               .timeout_s = TIMEOUT_S,
                                               .connection_bytes = HEADER_BYTES,
                                               .handle = handle,
                                               .context = d,
                                               .more = d->more};
    const int r = http_daemon_new(&daemon, certificate, &d->daemon);
    if (r < 0)
        return r;
    *ret = take_ptr(d);
    return 0;
}

int door_renew(struct door *d, const struct certificate *certificate)
{
    return http_daemon_renew(d->daemon, certificate);
}

void door_tick(struct door *d)
{
    http_daemon_tick(d->daemon);
}

void door_free(struct door *d)
{
    if (!d)
        return;
    http_daemon_free(d->daemon);
    free(d);
}
