/* See http2_requests.h. */
#include "sources/request/http2/http2_requests.h"

#include "base/buf.h"
#include "base/hpack.h"
#include "probes/common/hash.h"
#include "sources/request/http2/http2_streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define BUCKETS          4096 /* of connections */
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
    uint64_t name;
    struct connection *next_of_bucket;
    struct connection *prev, *next; /* by their latest use, the latest last */
    uint64_t process;
    uint32_t last_stream; /* the highest that the client began */
    bool is_joined;       /* found in its middle */
    bool is_bound;        /* its socket is known */
    uint64_t closed_ns;   /* 0: it is open, as far as is known */
    struct side sides[2];
    struct http2_stream *streams, *held; /* in progress; ended, the latest first */
    uint32_t held_count;
    bool has_unsent_messages;
    struct request_record common;
};

struct http2_requests {
    http2_reported *reported;
    void *context;
    struct connection *connections; /* the one that was idle for longest first */
    struct connection *connection_buckets[BUCKETS];
    struct http2_streams streams;
    uint32_t connection_count, closing_count;
    size_t taken; /* bytes of records since memory was last measured: it grows with them */
    struct http2_losses losses;
};

static void ignore_report(void *context, uint64_t process, struct http2_report *r)
{
    (void)context;
    (void)process;
    (void)r;
}

int http2_requests_new(http2_reported *reported, void *context, struct http2_requests **ret)
{
    struct http2_requests *q = calloc(1, sizeof(*q));
    if (!q)
        return -ENOMEM;
    q->streams.max = HTTP2_STREAMS_MAX;
    q->reported = reported;
    q->context = context;
    *ret = q;
    return 0;
}

/* The direction of requests on the connection. */
static enum http2_direction request_direction(const struct connection *c)
{
    return c->common.flags & REQUEST_CLIENT ? HTTP2_SENT : HTTP2_RECEIVED;
}

/* ---- streams ---- */

static struct http2_stream *find_stream(const struct http2_requests *q, const struct connection *c, uint32_t id)
{
    return http2_streams_find(&q->streams, c->name, id);
}

static struct http2_stream *make_stream(struct http2_requests *q, struct connection *c, uint32_t id)
{
    const bool is_shared = c->streams;
    struct http2_stream *s = http2_streams_make(&q->streams, c->name, id, &c->streams);
    if (s)
        s->is_shared = is_shared;
    else
        q->losses.streams++;
    return s;
}

static void report_stream(struct http2_requests *q, const struct connection *c, struct http2_stream *s, bool is_open)
{
    struct http2_report r = {.request = c->common, .is_open = is_open, .is_second = s->is_reported};
    http2_stream_write(s, is_open, &r.request);
    http2_stream_write_messages(s, is_open, &r.request, &r.stream);
    q->reported(q->context, c->process, &r);
    s->is_reported = true;
    s->is_notable = r.request.flags & REQUEST_NOTABLE;
    s->weight = r.request.weight;
}

/* Reports a stream that is hidden, and frees it. */
static void emit_stream(struct http2_requests *q, const struct connection *c, struct http2_stream *s)
{
    if (c->is_bound)
        report_stream(q, c, s, false);
    else
        q->losses.unbound++;
    http2_streams_free(&q->streams, s);
}

static void hold_stream(struct http2_requests *q, struct connection *c, struct http2_stream *s)
{
    if (c->held_count == HTTP2_HELD_MAX) {
        emit_stream(q, c, s);
        return;
    }
    http2_stream_link(&c->held, s);
    c->held_count++;
}

static void emit_held(struct http2_requests *q, struct connection *c)
{
    while (c->held) {
        struct http2_stream *s = c->held;
        http2_stream_unlink(s);
        emit_stream(q, c, s);
    }
    c->held_count = 0;
}

/* The request is over; `end_ns`: its last byte was sent, or it was reset. `is_unsent`: it was written, and will be sent
 * later. */
static void end_stream(struct http2_requests *q, struct connection *c, struct http2_stream *s, uint64_t end_ns,
                       bool is_unsent)
{
    http2_streams_hide(&q->streams, s);
    s->is_shared |= c->last_stream != s->id;
    s->end_ns = end_ns;
    s->is_unsent = is_unsent;
    if (is_unsent || !c->is_bound)
        hold_stream(q, c, s);
    else
        emit_stream(q, c, s);
}

/* ---- connections ---- */

static struct connection **connection_bucket(struct http2_requests *q, uint64_t name)
{
    return &q->connection_buckets[hash_mix(0, name) % BUCKETS];
}

static struct connection *find_connection(struct http2_requests *q, uint64_t name)
{
    struct connection *c = *connection_bucket(q, name);
    while (c && c->name != name)
        c = c->next_of_bucket;
    if (c && c->next) {
        DL_DELETE(q->connections, c);
        DL_APPEND(q->connections, c);
    }
    return c;
}

static void close_connection(struct http2_requests *q, struct connection *c, uint64_t end_ns)
{
    struct connection **at = connection_bucket(q, c->name);
    while (c->streams)
        end_stream(q, c, c->streams, c->streams->sent_ns ? c->streams->sent_ns : end_ns, false);
    emit_held(q, c);
    for (int i = 0; i < 2; i++) {
        hpack_decoder_clear(&c->sides[i].hpack);
        buf_clear(&c->sides[i].payload);
        buf_clear(&c->sides[i].block);
    }
    while (*at != c)
        at = &(*at)->next_of_bucket;
    *at = c->next_of_bucket;
    DL_DELETE(q->connections, c);
    q->closing_count -= c->closed_ns != 0;
    free(c);
    q->connection_count--;
}

/* Forgets a connection whose end was missed. The ends of its streams were missed, too: they are counted as lost. */
static void lose_connection(struct http2_requests *q, struct connection *c)
{
    emit_held(q, c);
    while (c->streams) {
        struct http2_stream *s = c->streams;
        http2_streams_hide(&q->streams, s);
        http2_streams_free(&q->streams, s);
        q->losses.streams++;
    }
    close_connection(q, c, 0);
}

void http2_requests_free(struct http2_requests *q)
{
    if (!q)
        return;
    q->reported = ignore_report;
    while (q->connections)
        lose_connection(q, q->connections);
    http2_streams_clear(&q->streams);
    free(q);
}

static void take_opened(struct http2_requests *q, const struct http2_opened *o)
{
    struct connection *c = find_connection(q, o->connection);
    if (c)
        close_connection(q, c, o->r.h.time_ns);
    if (q->connection_count == HTTP2_CONNECTIONS_MAX)
        lose_connection(q, q->connections);
    c = calloc(1, sizeof(*c));
    if (!c)
        return;
    c->name = o->connection;
    c->process = o->process;
    c->common = o->r;
    c->is_joined = !o->is_from_start;
    c->is_bound = !(c->name & HTTP2_OVER_TLS);
    for (int i = 0; i < 2; i++)
        hpack_decoder_init(&c->sides[i].hpack, c->is_joined);
    struct connection **bucket = connection_bucket(q, c->name);
    c->next_of_bucket = *bucket;
    *bucket = c;
    DL_APPEND(q->connections, c);
    q->connection_count++;
}

/* Streams that a server read before the socket was known began when it had received them. */
static void find_arrivals(struct http2_stream *s, const struct http2_bound *b)
{
    for (; s && !(b->r.flags & REQUEST_CLIENT); s = s->next)
        for (int i = 0; i < 2 && !s->has_arrival; i++)
            if (b->received_ns[i] && b->received_ns[i] <= s->read_ns)
                http2_stream_arrived(s, b->arrival_ns[i], b->received_ns[i]);
}

static void take_bound(struct http2_requests *q, struct connection *c, const struct http2_bound *b)
{
    c->process = b->process;
    c->common = b->r;
    c->is_bound = true;
    find_arrivals(c->streams, b);
    find_arrivals(c->held, b);
    for (struct http2_stream *s = c->held, *next; s; s = next) {
        next = s->next;
        if (s->is_unsent)
            continue;
        http2_stream_unlink(s);
        c->held_count--;
        emit_stream(q, c, s);
    }
}

static void take_closed(struct http2_requests *q, struct connection *c, uint64_t time_ns)
{
    if (!(c->name & HTTP2_OVER_TLS)) {
        close_connection(q, c, time_ns);
        return;
    }
    if (c->closed_ns)
        return;
    c->closed_ns = time_ns ? time_ns : 1;
    q->closing_count++;
}

static void close_closing(struct http2_requests *q, uint64_t now_ns)
{
    struct connection *c, *next;
    if (q->closing_count == 0)
        return;
    DL_FOREACH_SAFE(q->connections, c, next)
    {
        if (c->closed_ns && now_ns - c->closed_ns >= HTTP2_CLOSING_NS)
            close_connection(q, c, c->closed_ns);
    }
}

/* The reply of a stream that goes on has several messages now. */
static void report_messages(struct http2_requests *q, struct connection *c, struct http2_stream *s)
{
    if (s->messages > 1 && !s->is_reported && !s->is_message_unsent && c->is_bound)
        report_stream(q, c, s, true);
}

static void send_messages(struct http2_requests *q, struct connection *c, uint64_t time_ns)
{
    c->has_unsent_messages = false;
    for (struct http2_stream *s = c->streams; s; s = s->next) {
        http2_stream_sent(s, time_ns);
        report_messages(q, c, s);
    }
}

static void take_sent(struct http2_requests *q, struct connection *c, uint64_t time_ns)
{
    for (struct http2_stream *s = c->held; s; s = s->next) {
        http2_stream_sent(s, time_ns);
        s->end_ns = time_ns;
    }
    emit_held(q, c);
    if (c->has_unsent_messages)
        send_messages(q, c, time_ns);
}

/* ---- frames ---- */

/* A frame as it was copied. */
struct frame {
    const struct http2_frames *record;
    uint32_t stream, length;
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
    struct http2_stream *s = find_stream(q, c, f->stream);
    if (f->direction == request_direction(c)) {
        if (s || f->stream <= c->last_stream || f->stream % 2 == 0)
            return; /* trailers of the request */
        c->last_stream = f->stream;
        if (!fields.method_size && !fields.path_size && !fields.has_unknown)
            return;
        s = make_stream(q, c, f->stream);
        if (s)
            http2_stream_begin(s, &fields, side->arrival_ns, side->time_ns, f->record->pid, f->record->tid);
        return;
    }
    if (!s)
        return;
    http2_stream_reply(s, &fields, side->time_ns);
    if (side->first_flags & HTTP2_END_STREAM)
        end_stream(q, c, s, f->record->time_ns, f->record->is_unsent);
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

static void take_reply(struct http2_requests *q, struct connection *c, struct http2_stream *s, const struct frame *f)
{
    http2_stream_take_reply(s, f->length, f->record->time_ns, f->record->is_unsent);
    c->has_unsent_messages |= s->is_message_unsent;
    if (f->flags & HTTP2_END_STREAM)
        end_stream(q, c, s, f->record->time_ns, f->record->is_unsent);
    else if (request_direction(c) == HTTP2_RECEIVED)
        report_messages(q, c, s);
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
    case HTTP2_MESSAGE:
        s = find_stream(q, c, f->stream);
        if (s && f->direction == request_direction(c))
            s->is_grpc = true;
        else if (s)
            http2_stream_take_message(s, f->payload, f->size);
        return;
    case HTTP2_FIELD_1:
    case HTTP2_FIELD_2:
        s = find_stream(q, c, f->stream);
        if (s)
            http2_stream_take_field(s, f->type & 15, f->payload, f->size);
        return;
    case HTTP2_TENSOR:
        s = find_stream(q, c, f->stream);
        if (s)
            http2_stream_take_tensor(s, f->payload, f->size);
        return;
    case HTTP2_DATA:
        s = find_stream(q, c, f->stream);
        if (s && f->direction == request_direction(c))
            http2_stream_take_body(s, f->length);
        else if (s)
            take_reply(q, c, s, f);
        return;
    case HTTP2_RST_STREAM:
        s = find_stream(q, c, f->stream);
        if (!s || f->size < 4)
            return;
        http2_stream_reset(s, (uint32_t)f->payload[0] << 24 | (uint32_t)f->payload[1] << 16 |
                                  (uint32_t)f->payload[2] << 8 | f->payload[3]);
        end_stream(q, c, s, f->record->time_ns, f->record->is_unsent);
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
    if (size < sizeof(struct http2_event)) {
        q->losses.malformed++;
        return;
    }
    if (r->kind == HTTP2_RECORD_OPENED && size >= sizeof(struct http2_opened)) {
        take_opened(q, record);
        return;
    }
    struct connection *c = find_connection(q, r->connection);
    if (!c)
        return;
    if (r->kind == HTTP2_RECORD_CLOSED)
        take_closed(q, c, ((const struct http2_event *)record)->time_ns);
    else if (r->kind == HTTP2_RECORD_SENT)
        take_sent(q, c, ((const struct http2_event *)record)->time_ns);
    else if (r->kind == HTTP2_RECORD_BOUND && size >= sizeof(struct http2_bound))
        take_bound(q, c, record);
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
    for (int i = 0; i < 2; i++)
        bytes += c->sides[i].hpack.bytes + c->sides[i].payload.capacity + c->sides[i].block.capacity;
    return bytes;
}

static void limit_bytes(struct http2_requests *q)
{
    size_t bytes = 0;
    if (q->taken < LIMIT_STEP_BYTES)
        return;
    q->taken = 0;
    struct connection *c;
    DL_FOREACH(q->connections, c)
    {
        bytes += connection_bytes(c);
    }
    if (bytes <= HTTP2_REQUESTS_BYTES)
        return;
    DL_FOREACH(q->connections, c)
    {
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

void http2_requests_turn(struct http2_requests *q, uint64_t now_ns)
{
    close_closing(q, now_ns);
    limit_bytes(q);
}

size_t http2_requests_bytes(const struct http2_requests *q)
{
    size_t bytes = sizeof(*q) + (q->streams.count + q->streams.unused_count) * sizeof(struct http2_stream) +
                   q->connection_count * sizeof(struct connection);
    const struct connection *c;
    DL_FOREACH(q->connections, c)
    {
        bytes += connection_bytes(c);
    }
    return bytes;
}
