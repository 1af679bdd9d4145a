/* See http2_requests.h. */
#include "sources/request/http2/http2_requests.h"

#include "base/buf.h"
#include "base/hpack.h"
#include "probes/common/hash.h"
#include "sources/request/http2/http2_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS          4096
#define LIMIT_STEP_BYTES (256u << 10)
#define BLOCK_BYTES      65536 /* of all frames of a block of header fields; longer ones are lost */

/* One direction of a connection. */
struct side {
    struct hpack_decoder hpack;
    uint8_t head[HTTP2_HEAD_BYTES];
    uint8_t have;
    uint8_t first_flags;          /* of the HEADERS frame that began the block */
    uint32_t keep;                /* bytes of the payload to come */
    uint64_t time_ns, arrival_ns; /* of the system call that began the block */
    struct buf payload, block;
    bool is_block_lost;
};

struct connection {
    uint64_t process;
    uint32_t last_stream; /* the highest that the client began */
    bool is_joined;       /* found in its middle */
    struct side sides[2];
    struct http2_stream *streams;
    struct request_record common;
};

struct http2_requests {
    http2_ended *ended;
    void *context;
    struct connection *connections[REQUEST_CONNECTIONS_MAX];
    struct http2_stream *buckets[BUCKETS];
    struct http2_stream *unused;
    uint32_t stream_count, unused_count;
    uint32_t connection_count;
    size_t taken; /* bytes of records since memory was last measured: it grows with them */
    struct http2_losses losses;
};

int http2_requests_new(http2_ended *ended, void *context, struct http2_requests **ret)
{
    struct http2_requests *q = calloc(1, sizeof(*q));
    if (!q)
        return -ENOMEM;
    q->ended = ended;
    q->context = context;
    *ret = q;
    return 0;
}

/* ---- streams ---- */

static struct http2_stream **bucket_of(struct http2_requests *q, uint32_t number, uint32_t id)
{
    return &q->buckets[hash_mix(hash_mix(0, number), id) % BUCKETS];
}

static struct http2_stream *find_stream(struct http2_requests *q, uint32_t number, uint32_t id)
{
    struct http2_stream *s = *bucket_of(q, number, id);
    while (s && (s->id != id || s->connection != number))
        s = s->next_of_bucket;
    return s;
}

static struct http2_stream *make_stream(struct http2_requests *q, struct connection *c, uint32_t number, uint32_t id)
{
    struct http2_stream *s = q->unused;
    if (q->stream_count == HTTP2_STREAMS_MAX) {
        q->losses.streams++;
        return NULL;
    }
    if (s) {
        q->unused = s->next_of_bucket;
        q->unused_count--;
    } else {
        s = malloc(sizeof(*s));
    }
    if (!s) {
        q->losses.streams++;
        return NULL;
    }
    struct http2_stream **bucket = bucket_of(q, number, id);
    *s = (struct http2_stream){.id = id, .connection = number, .grpc_status = HTTP2_NO_GRPC_STATUS};
    s->next_of_bucket = *bucket;
    *bucket = s;
    s->is_shared = c->streams;
    s->next = c->streams;
    if (s->next)
        s->next->link = &s->next;
    s->link = &c->streams;
    c->streams = s;
    q->stream_count++;
    return s;
}

static void free_stream(struct http2_requests *q, struct http2_stream *s)
{
    struct http2_stream **at = bucket_of(q, s->connection, s->id);
    while (*at != s)
        at = &(*at)->next_of_bucket;
    *at = s->next_of_bucket;
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    s->next_of_bucket = q->unused;
    q->unused = s;
    q->unused_count++;
    q->stream_count--;
}

/* The request is over; `end_ns`: its last byte was sent, or it was reset. */
static void end_stream(struct http2_requests *q, const struct connection *c, struct http2_stream *s, uint64_t end_ns)
{
    struct request_record r = c->common;
    s->is_shared |= c->last_stream != s->id;
    http2_stream_write(s, end_ns, &r);
    q->ended(q->context, c->process, &r);
    free_stream(q, s);
}

/* ---- connections ---- */

static void close_connection(struct http2_requests *q, uint32_t number, uint64_t end_ns)
{
    struct connection *c = q->connections[number - 1];
    if (!c)
        return;
    while (c->streams)
        end_stream(q, c, c->streams, c->streams->sent_ns ? c->streams->sent_ns : end_ns);
    for (int i = 0; i < 2; i++) {
        hpack_decoder_clear(&c->sides[i].hpack);
        buf_clear(&c->sides[i].payload);
        buf_clear(&c->sides[i].block);
    }
    free(c);
    q->connections[number - 1] = NULL;
    q->connection_count--;
}

void http2_requests_free(struct http2_requests *q)
{
    if (!q)
        return;
    q->ended = NULL;
    for (uint32_t i = 0; i < REQUEST_CONNECTIONS_MAX; i++) {
        struct connection *c = q->connections[i];
        while (c && c->streams)
            free_stream(q, c->streams);
        close_connection(q, i + 1, 0);
    }
    while (q->unused) {
        struct http2_stream *s = q->unused;
        q->unused = s->next_of_bucket;
        free(s);
    }
    free(q);
}

static void take_opened(struct http2_requests *q, const struct http2_opened *o)
{
    close_connection(q, o->number, o->r.h.time_ns);
    struct connection *c = calloc(1, sizeof(*c));
    if (!c)
        return;
    c->process = o->process;
    c->common = o->r;
    c->is_joined = !o->is_from_start;
    for (int i = 0; i < 2; i++)
        hpack_decoder_init(&c->sides[i].hpack, c->is_joined);
    q->connections[o->number - 1] = c;
    q->connection_count++;
}

/* ---- frames ---- */

/* A frame as it was copied. */
struct frame {
    const struct http2_frames *record;
    uint32_t number, stream, length;
    uint8_t type, flags, direction;
    const uint8_t *payload;
    size_t size;
};

/* The end of a block of header fields; NULL: it is lost. */
static void take_fields(struct http2_requests *q, struct connection *c, const struct frame *f, const uint8_t *block,
                        size_t size)
{
    struct side *side = &c->sides[f->direction];
    struct http2_fields fields = {0};
    if (!block)
        fields.has_unknown = true;
    else if (hpack_decode(&side->hpack, block, size, http2_fields_take, &fields) < 0) {
        q->losses.malformed++;
        fields.has_unknown = true;
    }
    if (f->type == HTTP2_PUSH_PROMISE)
        return;
    struct http2_stream *s = find_stream(q, f->number, f->stream);
    if (f->direction == HTTP2_RECEIVED) {
        if (s || f->stream <= c->last_stream || f->stream % 2 == 0)
            return; /* trailers of the request */
        c->last_stream = f->stream;
        if (!fields.method_size && !fields.path_size && !fields.has_unknown)
            return;
        s = make_stream(q, c, f->number, f->stream);
        if (s)
            http2_stream_begin(s, &fields, side->arrival_ns, side->time_ns, f->record->pid, f->record->tid);
        return;
    }
    if (!s)
        return;
    http2_stream_reply(s, &fields, side->time_ns);
    if (side->first_flags & HTTP2_END_STREAM)
        end_stream(q, c, s, f->record->time_ns);
}

/* Removes padding and priority. False: the frame is malformed. */
static bool strip_payload(struct frame *f)
{
    const size_t pad_field = f->flags & HTTP2_PADDED && f->type != HTTP2_CONTINUATION ? 1 : 0,
                 pad = pad_field && f->size ? f->payload[0] : 0,
                 head = pad_field + (f->type == HTTP2_HEADERS && f->flags & HTTP2_HAS_PRIORITY ? 5 : 0) +
                        (f->type == HTTP2_PUSH_PROMISE ? 4 : 0);
    if (f->size < f->length || f->size < head + pad)
        return false;
    f->payload += head;
    f->size -= head + pad;
    return true;
}

static void take_block(struct http2_requests *q, struct connection *c, struct frame *f)
{
    struct side *side = &c->sides[f->direction];
    const bool is_first = f->type != HTTP2_CONTINUATION;
    if (is_first) {
        side->first_flags = f->flags;
        side->block.size = 0;
        side->is_block_lost = false;
    }
    if (!strip_payload(f) || side->block.size + f->size > BLOCK_BYTES)
        side->is_block_lost = true;
    if (side->is_block_lost) {
        if (f->flags & HTTP2_END_HEADERS) {
            q->losses.malformed++;
            hpack_decoder_lose(&side->hpack);
            take_fields(q, c, f, NULL, 0);
        }
        return;
    }
    if (is_first && f->flags & HTTP2_END_HEADERS) {
        take_fields(q, c, f, f->payload, f->size);
        return;
    }
    if (buf_append(&side->block, f->payload, f->size) < 0)
        side->is_block_lost = true;
    if (f->flags & HTTP2_END_HEADERS && !side->is_block_lost)
        take_fields(q, c, f, (const uint8_t *)side->block.data, side->block.size);
}

static void take_frame(struct http2_requests *q, struct connection *c, struct frame *f)
{
    struct http2_stream *s;
    switch (f->type) {
    case HTTP2_HEADERS:
    case HTTP2_CONTINUATION:
    case HTTP2_PUSH_PROMISE:
        take_block(q, c, f);
        return;
    case HTTP2_FIELD_1:
    case HTTP2_FIELD_2:
        s = find_stream(q, f->number, f->stream);
        if (s)
            http2_stream_take_field(s, f->type & 15, f->payload, f->size);
        return;
    case HTTP2_TENSOR:
        s = find_stream(q, f->number, f->stream);
        if (s)
            http2_stream_take_tensor(s, f->payload, f->size);
        return;
    case HTTP2_DATA:
        s = find_stream(q, f->number, f->stream);
        if (!s)
            return;
        if (f->direction == HTTP2_RECEIVED) {
            http2_stream_take_body(s, f->length);
            return;
        }
        s->bytes_out += f->length;
        s->sent_ns = f->record->time_ns;
        if (f->flags & HTTP2_END_STREAM)
            end_stream(q, c, s, f->record->time_ns);
        return;
    case HTTP2_RST_STREAM:
        s = find_stream(q, f->number, f->stream);
        if (!s || f->size < 4)
            return;
        http2_stream_reset(s, (uint32_t)f->payload[0] << 24 | (uint32_t)f->payload[1] << 16 |
                                  (uint32_t)f->payload[2] << 8 | f->payload[3]);
        end_stream(q, c, s, f->record->time_ns);
        return;
    default:
        return;
    }
}

static void take_frames(struct http2_requests *q, struct connection *c, const struct http2_frames *r)
{
    struct side *side = &c->sides[r->direction];
    if (r->is_after_gap) {
        q->losses.gaps++;
        side->have = 0;
        side->keep = 0;
        side->is_block_lost = true;
        hpack_decoder_lose(&side->hpack);
    }
    for (size_t at = 0; at < r->bytes;) {
        if (side->have < HTTP2_HEAD_BYTES) {
            if (side->have == 0) {
                side->time_ns = r->time_ns;
                side->arrival_ns = r->arrival_ns;
                side->payload.size = 0;
            }
            side->head[side->have++] = r->frames[at++];
            if (side->have < HTTP2_HEAD_BYTES)
                continue;
            side->keep = http2_kept(side->head[3], http2_length(side->head));
        }
        struct frame f = {.record = r,
                          .number = r->number,
                          .stream = http2_stream(side->head),
                          .length = http2_length(side->head),
                          .type = side->head[3],
                          .flags = side->head[4],
                          .direction = r->direction};
        const size_t left = r->bytes - at, n = side->keep < left ? side->keep : left;
        f.payload = r->frames + at;
        f.size = n;
        at += n;
        side->keep -= n;
        if (side->keep || side->payload.size) {
            if (buf_append(&side->payload, f.payload, n) < 0)
                side->is_block_lost = true;
            f.payload = (const uint8_t *)side->payload.data;
            f.size = side->payload.size;
        }
        if (side->keep)
            continue;
        side->have = 0;
        take_frame(q, c, &f);
    }
}

void http2_requests_take(struct http2_requests *q, const void *record, size_t size)
{
    const struct http2_frames *r = record;
    q->taken += size;
    if (size < sizeof(struct http2_closed) || r->number - 1 >= REQUEST_CONNECTIONS_MAX) {
        q->losses.malformed++;
        return;
    }
    if (r->kind == HTTP2_RECORD_OPENED && size >= sizeof(struct http2_opened)) {
        take_opened(q, record);
        return;
    }
    struct connection *c = q->connections[r->number - 1];
    if (!c || c->common.socket != r->socket)
        return;
    if (r->kind == HTTP2_RECORD_CLOSED)
        close_connection(q, r->number, r->time_ns);
    else if (r->kind == HTTP2_RECORD_FRAMES && size >= HTTP2_FRAMES_HEAD && r->bytes <= size - HTTP2_FRAMES_HEAD &&
             r->direction < 2)
        take_frames(q, c, r);
    else
        q->losses.malformed++;
}

const struct http2_losses *http2_requests_losses(const struct http2_requests *q)
{
    return &q->losses;
}

static size_t connection_bytes(const struct connection *c)
{
    size_t bytes = 0;
    for (int i = 0; c && i < 2; i++)
        bytes += c->sides[i].hpack.bytes + c->sides[i].payload.capacity + c->sides[i].block.capacity;
    return bytes;
}

void http2_requests_limit(struct http2_requests *q)
{
    size_t bytes = 0;
    if (q->taken < LIMIT_STEP_BYTES)
        return;
    q->taken = 0;
    for (uint32_t i = 0; q->connection_count && i < REQUEST_CONNECTIONS_MAX; i++)
        bytes += connection_bytes(q->connections[i]);
    for (uint32_t i = 0; bytes > HTTP2_REQUESTS_BYTES && i < REQUEST_CONNECTIONS_MAX; i++) {
        struct connection *c = q->connections[i];
        if (connection_bytes(c) == 0)
            continue;
        q->losses.gaps++;
        for (int k = 0; k < 2; k++) {
            hpack_decoder_clear(&c->sides[k].hpack);
            hpack_decoder_lose(&c->sides[k].hpack);
            buf_clear(&c->sides[k].payload); /* a frame without its first bytes is malformed */
            buf_clear(&c->sides[k].block);
            c->sides[k].is_block_lost = true;
        }
    }
}

size_t http2_requests_bytes(const struct http2_requests *q)
{
    size_t bytes = sizeof(*q) + (q->stream_count + q->unused_count) * sizeof(struct http2_stream) +
                   q->connection_count * sizeof(struct connection);
    for (uint32_t i = 0; q->connection_count && i < REQUEST_CONNECTIONS_MAX; i++)
        bytes += connection_bytes(q->connections[i]);
    return bytes;
}
