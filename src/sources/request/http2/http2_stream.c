/* See http2_stream.h. */
#include "sources/request/http2/http2_stream.h"

#include "probes/common/hash.h"

#include <stdio.h>
#include <string.h>

#define GRPC_TYPE "application/grpc"
#define VERSION   " HTTP/2"
#define UNKNOWN   "*"
#define KSERVE    "/inference.GRPCInferenceService/"
#define CONNECT   "CONNECT"
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Statuses of gRPC (grpc/grpc: doc/statuscodes.md) that stand for codes of HTTP/2 (doc/PROTOCOL-HTTP2.md). */
enum {
    GRPC_CANCELLED = 1,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_STATUS_MAX = 16
};
enum { REFUSED_STREAM = 7, CANCEL = 8, ENHANCE_YOUR_CALM = 11, INADEQUATE_SECURITY = 12 };

static bool read_number(const struct hpack_field *f, uint16_t most, uint16_t *ret)
{
    unsigned number = 0;
    if (!f->has_value || !f->value_size || f->value_size > 3)
        return false;
    for (size_t i = 0; i < f->value_size; i++) {
        if (f->value[i] < '0' || f->value[i] > '9')
            return false;
        number = number * 10 + (unsigned)(f->value[i] - '0');
    }
    *ret = (uint16_t)number;
    return number <= most;
}

static bool is_grpc_type(const struct hpack_field *f)
{
    const size_t size = strlen(GRPC_TYPE);
    return f->value_size >= size && memcmp(f->value, GRPC_TYPE, size) == 0 &&
           (f->value_size == size || f->value[size] == '+' || f->value[size] == ';');
}

void http2_fields_take(void *context, const struct hpack_field *f)
{
    struct http2_fields *fields = context;
    uint16_t number;
    if (!f->has_value && f->name != HPACK_OTHER) {
        fields->has_unknown = true;
        return;
    }
    switch (f->name) {
    case HPACK_METHOD:
        if (f->value_size > sizeof(fields->method))
            return;
        memcpy(fields->method, f->value, f->value_size);
        fields->method_size = f->value_size;
        return;
    case HPACK_PATH:
        fields->path_size = f->value_size < sizeof(fields->path) ? f->value_size : sizeof(fields->path);
        memcpy(fields->path, f->value, fields->path_size);
        return;
    case HPACK_STATUS:
        if (read_number(f, 999, &number))
            fields->status = number;
        return;
    case HPACK_CONTENT_TYPE:
        fields->is_grpc = is_grpc_type(f);
        return;
    case HPACK_GRPC_STATUS:
        if (read_number(f, GRPC_STATUS_MAX, &number)) {
            fields->grpc_status = (uint8_t)number;
            fields->has_grpc_status = true;
        }
        return;
    default:
        return;
    }
}

static void put(char *line, uint8_t *at, size_t room, const char *text, size_t size)
{
    for (size_t i = 0; i < size && *at < room; i++) {
        const char c = text[i];
        line[(*at)++] = c <= ' ' || c == 0x7f ? '_' : c;
    }
}

/* The query may hold secrets: it is left out here already. */
static size_t without_query(const char *path, size_t size)
{
    size_t i = 0;
    while (i < size && path[i] != '?' && path[i] != '#')
        i++;
    return i;
}

/* Only CONNECT has no path. */
static bool is_connect(const struct http2_fields *f)
{
    return f->method_size == strlen(CONNECT) && memcmp(f->method, CONNECT, strlen(CONNECT)) == 0;
}

void http2_stream_begin(struct http2_stream *s, const struct http2_fields *f, uint64_t arrival_ns, uint64_t read_ns,
                        uint32_t pid, uint32_t tid)
{
    const size_t room = sizeof(s->line) - strlen(VERSION);
    s->read_ns = s->start_ns = read_ns;
    if (arrival_ns)
        http2_stream_arrived(s, arrival_ns, read_ns);
    s->pid = pid;
    s->tid = tid;
    s->is_grpc = f->is_grpc;
    put(s->line, &s->line_bytes, room, f->method_size ? f->method : UNKNOWN, MAX(f->method_size, 1));
    s->line[s->line_bytes++] = ' ';
    const size_t size = without_query(f->path, f->path_size);
    put(s->line, &s->line_bytes, room, size ? f->path : UNKNOWN, MAX(size, 1));
    s->lacks_path = !size && !is_connect(f);
}

void http2_stream_arrived(struct http2_stream *s, uint64_t arrival_ns, uint64_t received_ns)
{
    s->has_arrival = true;
    s->read_ns = received_ns;
    s->start_ns = arrival_ns < received_ns ? arrival_ns : received_ns;
}

static bool has_path(const struct http2_stream *s, const char *prefix)
{
    const char *path = memchr(s->line, ' ', s->line_bytes);
    const size_t size = strlen(prefix);
    return path && (size_t)(s->line + s->line_bytes - path) > size && memcmp(path + 1, prefix, size) == 0;
}

/* TensorFlow Serving's ModelSpec: its field 1 is the name, its field 2 a message with the version as its field 1. */
static void take_model_spec(struct http2_stream *s, const uint8_t *spec, size_t size)
{
    char version[16];
    if (size < 2 || spec[0] != 0x0a || spec[1] > size - 2)
        return;
    const uint8_t *rest = spec + 2 + spec[1];
    put(s->model, &s->model_bytes, sizeof(s->model), (const char *)spec + 2, spec[1]);
    if (size - 2 - spec[1] < 4 || rest[0] != 0x12 || rest[1] != 2 || rest[2] != 0x08 || rest[3] > 127)
        return; /* versions from 128 on are left out */
    snprintf(version, sizeof(version), ":%u", rest[3]);
    put(s->model, &s->model_bytes, sizeof(s->model), version, strlen(version));
}

static bool is_path_unknown(const struct http2_stream *s)
{
    return s->lacks_path && !has_path(s, KSERVE);
}

/* Of other services, the first fields may be anything, also a secret. Where the path is not known, the model is kept
 * until the first frame of DATA ends: http2_stream_take_tensor may come before that. */
void http2_stream_take_field(struct http2_stream *s, unsigned number, const uint8_t *value, size_t size)
{
    if (s->has_body)
        return;
    s->has_message = true;
    if ((number == 1) != !s->model_bytes)
        return;
    if (has_path(s, "/tensorflow.serving.PredictionService/")) {
        if (number == 1)
            take_model_spec(s, value, size);
        return;
    }
    if (!has_path(s, KSERVE) && !is_path_unknown(s))
        return;
    if (number == 2)
        put(s->model, &s->model_bytes, sizeof(s->model), ":", 1);
    put(s->model, &s->model_bytes, sizeof(s->model), (const char *)value, size);
}

void http2_stream_take_tensor(struct http2_stream *s, const uint8_t *type, size_t size)
{
    static const char *const types[] = {"BOOL",  "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16",
                                        "INT32", "INT64", "FP16",   "FP32",   "FP64",   "BF16", "BYTES"};
    if (s->has_body || !s->model_bytes || !is_path_unknown(s))
        return;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (size != strlen(types[i]) || memcmp(type, types[i], size) != 0)
            continue;
        s->line_bytes--;
        put(s->line, &s->line_bytes, sizeof(s->line) - strlen(VERSION), KSERVE UNKNOWN, strlen(KSERVE UNKNOWN));
        s->is_grpc = true;
        return;
    }
}

void http2_stream_take_body(struct http2_stream *s, size_t size)
{
    if (is_path_unknown(s)) {
        memset(s->model, 0, s->model_bytes);
        s->model_bytes = 0;
    }
    s->bytes_in += size;
    s->has_body = true;
}

void http2_stream_take_message(struct http2_stream *s, const uint8_t *length, size_t size)
{
    const size_t prefix_bytes = 5;
    if (size == 4 && !s->message_left)
        s->message_left = prefix_bytes + ((uint64_t)length[0] << 24 | (uint64_t)length[1] << 16 |
                                          (uint64_t)length[2] << 8 | length[3]);
}

/* The last message of the reply was sent, or written, at that time. */
static void set_message_time(struct http2_stream *s, uint64_t time_ns)
{
    s->last_ns = time_ns;
    if (s->messages == 1)
        s->first_ns = time_ns;
}

void http2_stream_take_reply(struct http2_stream *s, size_t size, uint64_t time_ns, bool is_unsent)
{
    s->bytes_out += size;
    s->sent_ns = time_ns;
    if (!s->is_grpc || !size)
        return;
    s->has_more_messages |= size > s->message_left; /* also where none was reported */
    if (size < s->message_left) {
        s->message_left -= size;
        return;
    }
    s->message_left = 0;
    s->messages++;
    s->is_message_unsent = is_unsent;
    set_message_time(s, time_ns);
}

void http2_stream_sent(struct http2_stream *s, uint64_t time_ns)
{
    if (!s->is_message_unsent)
        return;
    s->is_message_unsent = false;
    set_message_time(s, time_ns);
}

void http2_stream_reply(struct http2_stream *s, const struct http2_fields *f, uint64_t time_ns)
{
    s->sent_ns = time_ns;
    if (!s->reply_ns && (f->status == 0 || f->status >= 200))
        s->reply_ns = time_ns;
    s->is_grpc |= s->has_reply && s->has_message && is_path_unknown(s); /* it has trailers, as gRPC's replies */
    s->has_reply |= f->status == 0 || f->status >= 200;
    if (f->status >= 200)
        s->status = f->status;
    s->is_grpc |= f->is_grpc;
    if (f->has_grpc_status) {
        s->grpc_status = f->grpc_status;
        s->is_grpc = true;
    }
}

void http2_stream_reset(struct http2_stream *s, uint32_t code)
{
    s->is_reset = true;
    if (!s->is_grpc || s->grpc_status != HTTP2_NO_GRPC_STATUS)
        return;
    switch (code) {
    case REFUSED_STREAM:
        s->grpc_status = GRPC_UNAVAILABLE;
        return;
    case CANCEL:
        s->grpc_status = GRPC_CANCELLED;
        return;
    case ENHANCE_YOUR_CALM:
        s->grpc_status = GRPC_RESOURCE_EXHAUSTED;
        return;
    case INADEQUATE_SECURITY:
        s->grpc_status = GRPC_PERMISSION_DENIED;
        return;
    default:
        s->grpc_status = GRPC_INTERNAL;
    }
}

/* gRPC's status says more than HTTP's, which is nearly always 200. It comes at the end. */
static uint16_t status_of(const struct http2_stream *s, bool is_open)
{
    if (s->grpc_status != HTTP2_NO_GRPC_STATUS)
        return REQUEST_GRPC_STATUS + s->grpc_status;
    return s->is_grpc && s->status == 200 && !is_open ? REQUEST_GRPC_UNKNOWN : s->status;
}

static uint64_t since(uint64_t start_ns, uint64_t time_ns)
{
    return time_ns > start_ns ? time_ns - start_ns : 0;
}

void http2_stream_write(const struct http2_stream *s, bool is_open, struct request_record *r)
{
    const uint64_t end_ns = is_open ? s->sent_ns : s->end_ns;
    uint8_t at = s->line_bytes;
    r->h.size_bytes = sizeof(*r);
    r->h.kind = RECORD_REQUEST;
    r->h.time_ns = end_ns;
    r->h.pid = s->pid;
    r->h.tid = s->tid;
    r->id = hash_mix(hash_mix(s->start_ns, r->socket), s->id) | 1;
    r->start_ns = s->start_ns;
    r->duration_ns = since(s->start_ns, end_ns);
    r->unread_ns = s->read_ns - s->start_ns;
    r->bytes_in = s->bytes_in;
    r->bytes_out = s->bytes_out;
    r->link = (struct link_ids){0};
    r->status = status_of(s, is_open);
    r->flags = (r->flags & (REQUEST_TLS | REQUEST_CLIENT)) | (r->status ? 0 : REQUEST_NO_REPLY) |
               (s->is_shared ? REQUEST_SHARED : 0) | (s->lacks_path ? REQUEST_NO_PATH : 0) |
               (s->is_notable ? REQUEST_NOTABLE : 0);
    r->weight = s->weight;
    r->protocol = s->is_grpc ? REQUEST_GRPC : REQUEST_HTTP2;
    memcpy(r->line, s->line, at);
    memcpy(r->line + at, VERSION, strlen(VERSION));
    at = (uint8_t)(at + strlen(VERSION));
    if (s->is_grpc && s->model_bytes && at + 1u < sizeof(r->line)) {
        r->line[at++] = ' ';
        put(r->line, &at, sizeof(r->line), s->model, s->model_bytes);
    }
    memset(r->line + at, 0, sizeof(r->line) - at);
    r->line_bytes = at;
}

void http2_stream_write_messages(const struct http2_stream *s, bool is_open, const struct request_record *r,
                                 struct request_stream_record *ret)
{
    if (s->messages < 2)
        return;
    *ret = (struct request_stream_record){
        .h = r->h,
        .id = r->id,
        .cgroup_id = r->cgroup_id,
        .start_ns = r->start_ns,
        .duration_ns = r->duration_ns,
        .first_byte_ns = since(r->start_ns, s->reply_ns),
        .first_ns = since(r->start_ns, s->first_ns),
        .last_ns = since(r->start_ns, s->last_ns),
        .chunks = s->messages,
        .status = r->status,
        .local_port = r->local_port,
        .flags = REQUEST_STREAM_EVENTS | (is_open ? 0 : REQUEST_STREAM_ENDED) |
                 (s->has_more_messages ? REQUEST_STREAM_UNREAD : 0),
        .line_bytes = r->line_bytes,
    };
    ret->h.kind = RECORD_REQUEST_STREAM;
    ret->h.size_bytes = sizeof(*ret);
    memcpy(ret->comm, r->comm, sizeof(ret->comm));
    memcpy(ret->line, r->line, sizeof(ret->line));
}
