/* Replies and their headers; see http.h. */
#include "serve/http.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COUNTED_BLOCK_BYTES ((size_t)32 << 10)

#define POLICY_NOTHING      "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

static bool add_disposition(struct MHD_Response *response, const struct http_reply *reply)
{
    char text[256];
    if (!reply->file_name)
        return true;
    snprintf(text, sizeof(text), "%s; filename=\"%s\"", reply->attachment ? "attachment" : "inline", reply->file_name);
    return MHD_add_response_header(response, "Content-Disposition", text) == MHD_YES;
}

static bool add_headers(struct MHD_Response *response, const struct http_reply *reply)
{
    const struct {
        const char *name, *value;
    } headers[] = {
        {"Content-Type", reply->content_type},
        {"Content-Encoding", reply->content_encoding},
        {"Content-Security-Policy", reply->policy ? reply->policy : POLICY_NOTHING},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cache-Control", reply->etag ? "no-cache" : "no-store"},
        {"Vary", reply->etag ? "Accept-Encoding" : NULL},
        {"ETag", reply->etag},
        {"Allow", reply->allow},
        {"WWW-Authenticate", reply->authenticate},
        {"Set-Cookie", reply->cookie},
        {"Retry-After", reply->retry_after_s},
    };
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        if (headers[i].value && MHD_add_response_header(response, headers[i].name, headers[i].value) != MHD_YES)
            return false;
    return add_disposition(response, reply);
}

static struct MHD_Response *with_headers(struct MHD_Response *response, const struct http_reply *reply)
{
    if (!response || add_headers(response, reply))
        return response;
    MHD_destroy_response(response);
    return NULL;
}

/* Gives up the caller's reference. */
static enum MHD_Result send_response(struct MHD_Connection *connection, const struct http_reply *reply,
                                     struct MHD_Response *response)
{
    if (!response)
        return MHD_NO; /* closes the connection: without memory no reply can be sent */
    const enum MHD_Result result = MHD_queue_response(connection, reply->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- a body that is counted ---- */

struct counted_body {
    struct readers *readers;
    struct buf body;
};

static ssize_t read_counted(void *context, uint64_t from, char *to, size_t max)
{
    const struct counted_body *c = context;
    const size_t left = c->body.size - from, size = left < max ? left : max;
    memcpy(to, c->body.data + from, size);
    return size ? (ssize_t)size : MHD_CONTENT_READER_END_OF_STREAM;
}

static void free_counted(void *context)
{
    struct counted_body *c = context;
    readers_hold(c->readers, -(int64_t)c->body.size);
    buf_clear(&c->body);
    free(c);
}

static struct MHD_Response *new_counted(struct readers *readers, struct buf *body)
{
    struct counted_body *c = malloc(sizeof(*c));
    if (!c)
        return NULL;
    char *data =
        realloc(body->data, body->size + 1); /* it may stay for long: without the capacity that it does not use */
    *c = (struct counted_body){.readers = readers, .body = {.data = data ? data : body->data, .size = body->size}};
    *body = (struct buf){0};
    readers_hold(readers, (int64_t)c->body.size);
    struct MHD_Response *response =
        MHD_create_response_from_callback(c->body.size, COUNTED_BLOCK_BYTES, read_counted, c, free_counted);
    if (!response)
        free_counted(c);
    return response;
}

struct MHD_Response *http_response_new(const struct http_reply *reply, struct buf *body)
{
    if (reply->readers && body->data)
        return with_headers(new_counted(reply->readers, body), reply);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        body->size, body->data ? body->data : (void *)"", body->data ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (response) /* owns the bytes from here on */
        *body = (struct buf){0};
    return with_headers(response, reply);
}

/* ---- replies ---- */

enum MHD_Result http_reply_static(struct MHD_Connection *connection, const struct http_reply *reply, const void *bytes,
                                  size_t size)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(size, (void *)bytes, MHD_RESPMEM_PERSISTENT);
    return send_response(connection, reply, with_headers(response, reply));
}

enum MHD_Result http_reply_buf(struct MHD_Connection *connection, const struct http_reply *reply, struct buf *body)
{
    return send_response(connection, reply, http_response_new(reply, body));
}

enum MHD_Result http_reply_text(struct MHD_Connection *connection, unsigned status, const char *format, ...)
{
    _cleanup_buf_ struct buf body = {0};
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    buf_puts(&body, text);
    buf_putc(&body, '\n');
    const struct http_reply reply = {
        .status = status,
        .content_type = "text/plain; charset=utf-8",
        .authenticate = status == MHD_HTTP_UNAUTHORIZED ? "Basic realm=\"Sonde\", charset=\"UTF-8\"" : NULL,
        .retry_after_s = status == MHD_HTTP_SERVICE_UNAVAILABLE || status == MHD_HTTP_TOO_MANY_REQUESTS ? "5" : NULL,
    };
    return http_reply_buf(connection, &reply, &body);
}

enum MHD_Result http_reply_not_allowed(struct MHD_Connection *connection, const char *methods)
{
    _cleanup_buf_ struct buf body = {0};
    const struct http_reply reply = {
        .status = MHD_HTTP_METHOD_NOT_ALLOWED, .content_type = "text/plain; charset=utf-8", .allow = methods};
    buf_printf(&body, "supported methods: %s\n", methods);
    return http_reply_buf(connection, &reply, &body);
}

struct reader *http_reader(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

const struct sockaddr *http_client_address(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
}

const char *http_header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result count_host(void *count, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    (void)value;
    *(unsigned *)count += strcasecmp(name, "Host") == 0;
    return MHD_YES;
}

const char *http_host(struct MHD_Connection *connection)
{
    unsigned count = 0;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, count_host, &count);
    return count == 1 ? http_header(connection, "Host") : NULL;
}

static bool quality_is_zero(const char *parameters, size_t size)
{
    const char *q = memmem(parameters, size, "q=", 2);
    if (!q)
        return false;
    q += 2;
    size_t left = size - (size_t)(q - parameters);
    return left > 0 && strspn(q, "0. \t") >= left;
}

bool http_header_names(const char *header, const char *token)
{
    size_t token_size = strlen(token);
    while (header && *header) {
        header += strspn(header, ", \t");
        size_t size = strcspn(header, ",");
        size_t name = strcspn(header, ",; \t");
        if (name == token_size && strncasecmp(header, token, name) == 0)
            return !quality_is_zero(header + name, size - name);
        header += size;
    }
    return false;
}

void http_log_from_library(void *name, const char *format, va_list arguments)
{
    char text[256];
    vsnprintf(text, sizeof(text), format, arguments);
    text[strcspn(text, "\n")] = '\0';
    log_debug("%s: %s", (const char *)name, text);
}
