/* HTTP/2 with a client of gRPC; see grpc_connection.h. */
#include "server/grpc_connection.h"

#include "base/base64.h"
#include "base/protobuf.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <string.h>
#include <utlist.h>

#define PREFIX_BYTES        5 /* of a message: whether it is compressed, and its size */
#define STREAM_WINDOW       (1 << 20)
#define CONNECTION_WINDOW   (4 << 20)
#define AUTHORIZATION_BYTES 512
#define HEADER_BYTES        16384 /* decompressed, of one stream, with its trailers */
#define FIELD_OVERHEAD      32    /* of each field: how RFC 9113 counts SETTINGS_MAX_HEADER_LIST_SIZE */
#define RETRY_S             5

enum stream_state {
    STREAM_OPENING, /* its headers are not complete */
    STREAM_RECEIVING,
    STREAM_TAKEN,   /* the call is away */
    STREAM_REPLYING /* the reply is being sent */
};

/* A call and what HTTP/2 has to know about it. */
struct stream {
    struct grpc_call call;              /* first: grpc_call_finish finds the stream by it */
    struct grpc_connection *connection; /* NULL: the client does not wait any more */
    union address client;               /* a copy: the call can outlive its connection */
    int32_t id;
    enum stream_state state;
    uint64_t since_ns; /* of the state; OPENING and RECEIVING are one */
    bool is_post, is_grpc, is_complete;
    bool is_allowed; /* it is a call, of a client that may call */
    size_t header_bytes;
    char encoding[GRPC_ENCODING_BYTES];
    char *authorization;
    struct body_memory *memory;
    uint64_t holder; /* the client's number in `memory` */
    size_t held;     /* of `memory`, for the body */
    struct buf body;
    struct buf reply; /* with its prefix */
    size_t sent;
    struct stream *prev, *next;
};

struct grpc_connection {
    struct grpc_connection_options o;
    nghttp2_session *session;
    uint64_t now_ns; /* of the bytes that are being received */
    struct stream *streams;
};

static void drop_body(struct stream *s)
{
    body_memory_give(s->memory, s->holder, s->held);
    s->held = 0;
    buf_clear(&s->body);
}

static void drop_authorization(struct stream *s)
{
    if (s->authorization)
        explicit_bzero(s->authorization, strlen(s->authorization));
    free(take_ptr(s->authorization));
}

static void stream_free(struct stream *s)
{
    drop_body(s);
    drop_authorization(s);
    buf_clear(&s->reply);
    buf_clear(&s->call.reply.message);
    free(s);
}

/* ---- replies ---- */

#define FIELD(n, v)                                                                                                    \
    {                                                                                                                  \
        .name = (uint8_t *)(n), .namelen = strlen(n), .value = (uint8_t *)(v), .valuelen = strlen(v)                   \
    }

static void put_reply_prefix(struct stream *s)
{
    const size_t size = s->call.reply.message.size;
    buf_putc(&s->reply, 0); /* not compressed */
    for (int shift = 24; shift >= 0; shift -= 8)
        buf_putc(&s->reply, (char)(size >> shift));
}

static ssize_t read_reply(nghttp2_session *session, int32_t id, uint8_t *to, size_t space, uint32_t *flags,
                          nghttp2_data_source *source, void *context)
{
    const nghttp2_nv trailers[] = {FIELD("grpc-status", "0")};
    struct stream *s = source->ptr;
    const size_t left = s->reply.size - s->sent, n = left < space ? left : space;
    (void)context;
    memcpy(to, s->reply.data + s->sent, n);
    s->sent += n;
    if (n == left) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(session, id, trailers, array_size(trailers)) < 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return (ssize_t)n;
}

static int send_message(struct stream *s)
{
    const nghttp2_nv headers[] = {FIELD(":status", "200"), FIELD("content-type", "application/grpc")};
    const nghttp2_data_provider data = {.source.ptr = s, .read_callback = read_reply};
    const struct buf *message = &s->call.reply.message;
    put_reply_prefix(s);
    if (message->size)
        buf_append(&s->reply, message->data, message->size);
    return buf_error(&s->reply)
               ?: nghttp2_submit_response(s->connection->session, s->id, headers, array_size(headers), &data);
}

/* google.rpc.Status with a google.rpc.RetryInfo, which OTLP wants with an error that is not for ever. */
static void put_details(struct buf *out, const struct grpc_reply *reply)
{
    enum { STATUS_CODE = 1, STATUS_MESSAGE = 2, STATUS_DETAILS = 3, ANY_TYPE = 1, ANY_VALUE = 2 };
    enum { RETRY_DELAY = 1, DURATION_SECONDS = 1 };
    static const char type[] = "type.googleapis.com/google.rpc.RetryInfo";
    _cleanup_buf_ struct buf status = {0}, any = {0}, info = {0}, delay = {0};
    protobuf_put_number(&delay, DURATION_SECONDS, reply->retry_after_s);
    protobuf_put_message(&info, RETRY_DELAY, &delay);
    protobuf_put_bytes(&any, ANY_TYPE, type, strlen(type));
    protobuf_put_message(&any, ANY_VALUE, &info);
    protobuf_put_number(&status, STATUS_CODE, reply->status);
    protobuf_put_bytes(&status, STATUS_MESSAGE, reply->text, strlen(reply->text));
    protobuf_put_message(&status, STATUS_DETAILS, &any);
    base64_put(out, status.data, status.size);
}

/* Headers alone, which are the trailers as well. */
static int send_error(struct stream *s)
{
    const struct grpc_reply *reply = &s->call.reply;
    _cleanup_buf_ struct buf details = {0};
    char status[12];
    snprintf(status, sizeof(status), "%d", reply->status);
    put_details(&details, reply);
    if (buf_error(&details) < 0)
        return buf_error(&details);
    const nghttp2_nv fields[] = {FIELD(":status", s->is_grpc ? "200" : "415"),
                                 FIELD("content-type", "application/grpc"),
                                 FIELD("grpc-accept-encoding", "identity,gzip,zstd"),
                                 FIELD("grpc-status", status),
                                 FIELD("grpc-message", reply->text),
                                 FIELD("grpc-status-details-bin", details.data)};
    const size_t count = array_size(fields) - (reply->retry_after_s ? 0 : 1);
    return nghttp2_submit_response(s->connection->session, s->id, fields, count, NULL);
}

static void send_reply(struct stream *s, uint64_t now_ns)
{
    s->state = STREAM_REPLYING;
    s->since_ns = now_ns;
    drop_body(s);
    if ((s->call.reply.status == GRPC_OK ? send_message(s) : send_error(s)) < 0)
        nghttp2_submit_rst_stream(s->connection->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_INTERNAL_ERROR);
}

static void refuse(struct stream *s, enum grpc_status status, const char *text)
{
    s->call.reply.status = status;
    s->call.reply.text = text;
    s->call.reply.retry_after_s = status == GRPC_UNAVAILABLE || status == GRPC_RESOURCE_EXHAUSTED ? RETRY_S : 0;
    send_reply(s, s->connection->now_ns);
}

void grpc_call_finish(struct grpc_call *call, uint64_t now_ns)
{
    struct stream *s = (struct stream *)call;
    if (s->connection)
        send_reply(s, now_ns);
    else
        stream_free(s);
}

/* ---- requests ---- */

static uint32_t message_size(const struct buf *body)
{
    const uint8_t *b = (const uint8_t *)body->data + 1;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void check_client(struct stream *s)
{
    const struct grpc_connection_options *o = &s->connection->o;
    struct access_client client = {0};
    const enum grpc_status status = o->admit(o->context, s->authorization, &o->client.any, &client);
    s->holder = client.number;
    memcpy(s->call.tenant, client.tenant, sizeof(client.tenant));
    s->is_allowed = status == GRPC_OK;
    if (status == GRPC_UNAUTHENTICATED)
        refuse(
            s, status,
            "a token with the scope write (or admin) is needed, in the header Authorization: Bearer TOKEN; `sonde token new --scope write` prints a line for it");
    else if (status != GRPC_OK)
        refuse(s, status, "too many calls a second from this client: try again later");
}

static void check_headers(struct stream *s)
{
    s->state = STREAM_RECEIVING;
    if (!s->is_post || !s->is_grpc)
        refuse(s, GRPC_UNIMPLEMENTED, "only calls of gRPC are answered: POST with Content-Type application/grpc");
    else
        check_client(s);
    drop_authorization(s);
}

/* Refuses a message that is too large, or that the client's share of the memory has no space for, before it comes. */
static int check_size(const struct stream *s)
{
    const size_t size = message_size(&s->body), come = s->body.size - PREFIX_BYTES;
    if (size > s->connection->o.message_max_bytes)
        return -EFBIG;
    return size <= come || body_memory_allows(s->memory, s->holder, size - come) ? 0 : -ENOMEM;
}

static void take_body(struct stream *s, const uint8_t *data, size_t size)
{
    const size_t max = s->connection->o.message_max_bytes, before = s->body.size;
    int r = body_memory_take(s->memory, s->holder, size) ? 0 : -ENOMEM;
    s->held += r == 0 ? size : 0;
    s->body.max_bytes = max + PREFIX_BYTES;
    r = r < 0 ? r : buf_append(&s->body, data, size);
    if (r == 0 && before < PREFIX_BYTES && s->body.size >= PREFIX_BYTES)
        r = check_size(s);
    if (r == -EFBIG)
        refuse(s, GRPC_INVALID_ARGUMENT, "the message is too large: send smaller batches");
    else if (r < 0)
        refuse(s, GRPC_UNAVAILABLE, "too many requests at once: try again later");
}

static void complete_call(struct stream *s)
{
    const struct grpc_connection_options *o = &s->connection->o;
    s->is_complete = true;
    if (s->state != STREAM_RECEIVING)
        return;
    const bool is_compressed = s->body.size && s->body.data[0];
    if (s->body.size < PREFIX_BYTES || message_size(&s->body) != s->body.size - PREFIX_BYTES ||
        (uint8_t)s->body.data[0] > 1 || (is_compressed && !s->encoding[0])) {
        refuse(s, GRPC_INVALID_ARGUMENT, "the body is not one message of gRPC");
        return;
    }
    s->call.encoding = is_compressed ? s->encoding : NULL;
    s->call.message = cursor_make(s->body.data + PREFIX_BYTES, s->body.size - PREFIX_BYTES);
    s->state = STREAM_TAKEN;
    if (!o->take(o->context, &s->call))
        refuse(s, GRPC_UNAVAILABLE, "too many requests at once: try again later");
}

/* ---- what nghttp2 calls ---- */

static bool is_request(const nghttp2_frame *frame)
{
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct grpc_connection *c = context;
    if (!is_request(frame))
        return 0;
    struct stream *s = calloc(1, sizeof(*s));
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    s->connection = c;
    s->client = c->o.client;
    s->call.client = &s->client.any;
    s->id = frame->hd.stream_id;
    s->since_ns = c->now_ns;
    s->memory = c->o.memory;
    DL_APPEND(c->streams, s);
    nghttp2_session_set_stream_user_data(session, s->id, s);
    return 0;
}

static bool is_name(const uint8_t *name, size_t size, const char *text)
{
    return size == strlen(text) && memcmp(name, text, size) == 0;
}

/* Copies a value; one that is too long becomes `instead`. */
static void copy_value(char *to, size_t space, const uint8_t *value, size_t size, const char *instead)
{
    if (size < space)
        snprintf(to, space, "%.*s", (int)size, (const char *)value);
    else
        snprintf(to, space, "%s", instead);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t size, uint8_t flags, void *context)
{
    static const char type[] = "application/grpc";
    struct stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)flags;
    (void)context;
    if (!s)
        return 0;
    s->header_bytes += name_size + size + FIELD_OVERHEAD;
    if (s->header_bytes > HEADER_BYTES) /* a few bytes can stand for a long field (HPACK) */
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (!is_request(frame))
        return 0;
    if (is_name(name, name_size, ":method"))
        s->is_post = is_name(value, size, "POST");
    else if (is_name(name, name_size, ":path"))
        copy_value(s->call.method, sizeof(s->call.method), value, size, "");
    else if (is_name(name, name_size, "content-type"))
        s->is_grpc = size >= strlen(type) && memcmp(value, type, strlen(type)) == 0 &&
                     (size == strlen(type) || value[strlen(type)] == '+' || value[strlen(type)] == ';');
    else if (is_name(name, name_size, "grpc-encoding"))
        copy_value(s->encoding, sizeof(s->encoding), value, size, "unknown");
    else if (is_name(name, name_size, "authorization") && !s->authorization && size < AUTHORIZATION_BYTES)
        s->authorization = strndup((const char *)value, size);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t size, void *context)
{
    struct stream *s = nghttp2_session_get_stream_user_data(session, id);
    (void)flags;
    (void)context;
    if (s && s->state == STREAM_RECEIVING)
        take_body(s, data, size);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct stream *s = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA
                           ? nghttp2_session_get_stream_user_data(session, frame->hd.stream_id)
                           : NULL;
    (void)context;
    if (s && is_request(frame)) {
        s->is_complete = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
        check_headers(s);
    }
    if (s && frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        complete_call(s);
    return 0;
}

/* What a client has not sent yet of a request that is refused is not needed. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    const struct stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)context;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->hd.flags & NGHTTP2_FLAG_END_STREAM && s && !s->is_complete)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *context)
{
    struct grpc_connection *c = context;
    struct stream *s = nghttp2_session_get_stream_user_data(session, id);
    (void)error;
    if (!s)
        return 0;
    DL_DELETE(c->streams, s);
    if (s->state == STREAM_TAKEN)
        s->connection = NULL;
    else
        stream_free(s);
    return 0;
}

/* ---- a connection ---- */

static int open_session(struct grpc_connection *c)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS_MAX},
                                                      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
                                                      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_BYTES}};
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int r = nghttp2_session_callbacks_new(&callbacks) ?: nghttp2_option_new(&option);
    if (r == 0) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        nghttp2_option_set_no_closed_streams(option, 1);
        r = nghttp2_session_server_new2(&c->session, callbacks, c, option);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return r
               ?: nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, array_size(settings))
               ?: nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
}

int grpc_connection_new(const struct grpc_connection_options *options, struct grpc_connection **ret)
{
    _cleanup_(grpc_connection_freep) struct grpc_connection *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->o = *options;
    if (open_session(c) < 0)
        return -ENOMEM;
    *ret = take_ptr(c);
    return 0;
}

void grpc_connection_free(struct grpc_connection *c)
{
    struct stream *s, *next;
    if (!c)
        return;
    DL_FOREACH_SAFE(c->streams, s, next)
    {
        DL_DELETE(c->streams, s);
        if (s->state == STREAM_TAKEN)
            s->connection = NULL;
        else
            stream_free(s);
    }
    nghttp2_session_del(c->session);
    free(c);
}

int grpc_connection_receive(struct grpc_connection *c, const void *data, size_t size, uint64_t now_ns)
{
    c->now_ns = now_ns;
    return nghttp2_session_mem_recv(c->session, data, size) < 0 ? -EPROTO : 0;
}

int grpc_connection_put_output(struct grpc_connection *c, struct buf *out, size_t enough)
{
    const uint8_t *data;
    ssize_t n = 0;
    while (out->size < enough && (n = nghttp2_session_mem_send(c->session, &data)) > 0)
        buf_append(out, data, (size_t)n);
    return n < 0 ? -EPROTO : buf_error(out);
}

bool grpc_connection_is_ended(const struct grpc_connection *c)
{
    return !nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session);
}

bool grpc_connection_has_calls(const struct grpc_connection *c)
{
    const struct stream *s;
    DL_FOREACH(c->streams, s)
    if (s->is_allowed)
        return true;
    return false;
}

void grpc_connection_tick(struct grpc_connection *c, uint64_t now_ns)
{
    struct stream *s;
    c->now_ns = now_ns;
    DL_FOREACH(c->streams, s)
    {
        if (s->state == STREAM_TAKEN || now_ns - s->since_ns < GRPC_CALL_NS)
            continue;
        if (s->state == STREAM_OPENING)
            grpc_connection_end(c);
        else if (s->state == STREAM_RECEIVING)
            refuse(s, GRPC_DEADLINE_EXCEEDED, "the request took too long");
        else
            nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
    }
}

void grpc_connection_end(struct grpc_connection *c)
{
    nghttp2_session_terminate_session(c->session, NGHTTP2_NO_ERROR);
}
