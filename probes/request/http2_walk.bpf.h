/* The walk through frames of HTTP/2: finds them in the bytes of one direction of a connection, which may be cut
 * anywhere, and copies the parts that describe requests to the ring (http2.h). Part of request.bpf.c.
 *
 * The state of a direction is a few bytes, which say where in a frame its next byte is. A walk works on a copy of it,
 * in a scratch of the CPU: so it is the same for bytes of sockets (http2.bpf.h) and for the plaintext of TLS
 * (tls_http2.bpf.h), whose programs keep the state. Functions with a name that ends in `_inline` are for programs at
 * uprobes as well, which call no global function. */
#pragma once

#include "probes/common/syscalls.bpf.h"
#include "probes/request/http2.h"
#include "probes/request/request_state.bpf.h"

#define HTTP2_STEPS    2048 /* frames and parts of vectors in one system call, */
#define HTTP2_STRIDE   64   /* and in one call of http2_stride */
#define HTTP2_PIECE    512
#define HTTP2_FLUSH_AT 3584
#define HTTP2_AHEAD    256 /* bytes that are read at once: most frames are smaller */
#define HTTP2_SHORT    64  /* a copy of at most so many bytes needs no call */

struct http2_side {
    __u32 next_seq; /* TCP's count at the next byte; of TLS: not used */
    __u32 skip;     /* bytes of payload to come, */
    __u32 keep;     /* and how many of them are copied */
    __u8 have;      /* bytes of `head` */
    __u8 is_live;   /* in step with the frames */
    __u8 has_gap;   /* bytes were missed, and no record said so yet */
    __u8 is_data;   /* the frame is DATA: its head is copied at its end, */
    __u8 head[HTTP2_HEAD_BYTES];
    __u8 is_body;        /* and its payload has just begun */
    __u8 is_client;      /* of a connection that the process began: nothing of a payload is copied */
    __u8 finds_messages; /* in what the process sends: messages of gRPC are reported, without their bytes */
    __u8 reserved[4];
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1024 * 1024);
} http2_ring SEC(".maps");

/* The state of the walk over the bytes of one call, and the record that it fills. */
struct http2_walk {
    struct http2_side side; /* a copy; `record` has its direction */
    __u64 vector, base;     /* addresses: of the next part of the vector, of the next byte */
    __u32 part, left;       /* bytes: of this part, of the parts after it */
    __u32 vectors;
    __u32 used;
    struct syscall_registers registers; /* a copy, where they cannot be read directly */
    struct http2_frames record;
    __u8 beyond[HTTP2_PIECE];
    __u64 ahead_base; /* address of the bytes in `ahead`, */
    __u32 ahead_size; /* and how many bytes; 0: none */
    __u8 ahead[HTTP2_AHEAD + HTTP2_SHORT];
    bool is_busy;    /* a program at a uprobe uses it */
    bool is_trial;   /* nothing of it is kept */
    bool is_control; /* the call began with a frame, and all frames so far are of no request */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct http2_walk);
} http2_walk SEC(".maps");

static __always_inline struct http2_walk *http2_walk_find(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&http2_walk, &zero);
}

/* The scratch, to begin with; NULL: another program is at it, which the kernel has preempted on this CPU. */
static __always_inline struct http2_walk *http2_walk_idle(void)
{
    struct http2_walk *w = http2_walk_find();
    return w && !w->is_busy ? w : NULL;
}

static __always_inline __u64 http2_wakeup(void)
{
    return bpf_ringbuf_query(&http2_ring, BPF_RB_AVAIL_DATA) > 256 * 1024 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/* Whether these nine bytes may be the head of a frame. `is_strict`: by its flags, too, which servers ignore. */
static __always_inline bool http2_is_head_inline(__u64 head, __u8 last, bool is_strict)
{
    static const __u8 flags_of[16] = {0x9, 0x2d, 0, 0, 1, 0xc, 1, 0, 0, 4};
    static const __u8 length_of[16] = {0, 0, 5, 4, 0, 0, 8, 0, 4, 0};  /* 0: any */
    static const __u8 has_stream[16] = {1, 1, 1, 1, 0, 1, 0, 0, 2, 1}; /* 2: both are possible */
    __u32 length = (head & 0xff) << 16 | (head & 0xff00) | (head >> 16 & 0xff), type = head >> 24 & 0xff,
          stream = (__u32)__builtin_bswap64(head) << 8 | last, flags = head >> 32 & 0xff;
    if (type > HTTP2_CONTINUATION)
        return !is_strict && length <= 16384;
    type &= 15;
    if (length_of[type] && length != length_of[type])
        return 0;
    if (has_stream[type] != 2 && has_stream[type] != (stream << 1 != 0))
        return 0;
    return !is_strict || (!(flags & ~flags_of[type]) && !(stream >> 31) && length <= 16384);
}

__noinline int http2_is_head(__u64 head, __u8 last, int is_strict)
{
    return http2_is_head_inline(head, last, is_strict);
}

static __always_inline bool http2_read_head(__u64 at, __u64 *ret_head, __u8 *ret_last)
{
    return bpf_probe_read_user(ret_head, 8, (const void *)at) == 0 &&
           bpf_probe_read_user(ret_last, 1, (const void *)at + 8) == 0;
}

/* Bytes are missed from here on. */
static __always_inline void http2_lose_step(struct http2_side *s)
{
    s->is_live = 0;
    s->has_gap = 1;
}

static __always_inline void http2_flush(struct http2_side *s, struct http2_walk *w)
{
    struct http2_frames *r = &w->record;
    __u64 bytes = at_most(w->used, HTTP2_FRAMES_BYTES);
    w->used = 0;
    if (w->is_trial)
        return;
    r->bytes = bytes;
    r->is_after_gap = s->has_gap;
    s->has_gap = 0;
    if (bpf_ringbuf_output(&http2_ring, r, HTTP2_FRAMES_HEAD + bytes, http2_wakeup()) == 0)
        return;
    http2_lose_step(s);
    lose(REQUEST_LOSS_RING_FULL);
}

static __always_inline void http2_put_head(struct http2_side *s, struct http2_walk *w)
{
    __u8 *at = &w->record.frames[table_index(w->used, 4095)];
    __builtin_memcpy(at, s->head, HTTP2_HEAD_BYTES);
    w->used += HTTP2_HEAD_BYTES;
}

/* Copies field `number` of a message, whose tag and length are the two bytes at `from`, as a frame of `type`: returns
 * its length and theirs; 0: it is not there. */
static __always_inline __u32 http2_put_field(struct http2_side *s, struct http2_walk *w, __u64 from, __u32 room,
                                             __u32 number, __u32 type)
{
    __u8 start[2];
    if (room < 2 || bpf_probe_read_user(start, 2, (const void *)from) < 0)
        return 0;
    __u64 length = start[1] & 127;
    if (start[0] != (number << 3 | 2) || start[1] > 127 || !length || length + 2 > room)
        return 0;
    __u64 used = table_index(w->used, 4095);
    __u8 *at = &w->record.frames[used];
    __builtin_memcpy(at, s->head, HTTP2_HEAD_BYTES);
    at[0] = at[1] = at[4] = 0;
    at[2] = length;
    at[3] = type;
    if (bpf_probe_read_user(at + HTTP2_HEAD_BYTES, length, (const void *)from + 2) < 0)
        return 0;
    w->used = used + HTTP2_HEAD_BYTES + length;
    return length + 2;
}

/* Keeps the type of the first tensor of KServe's ModelInferRequest, whose name and version end at `from`: an id (field
 * 3) may follow, then the tensor (field 5) with its name (field 1) and its type (field 2). */
static __always_inline void http2_put_tensor(struct http2_side *s, struct http2_walk *w, __u64 from, __u32 room)
{
    __u8 id[2], start[5];
    if (room < 8 || bpf_probe_read_user(id, 2, (const void *)from) < 0)
        return;
    __u32 at = id[0] == (3 << 3 | 2) && id[1] < 128 ? 2 + id[1] : 0;
    if (at + 5 > room || bpf_probe_read_user(start, 5, (const void *)from + at) < 0 || start[0] != (5 << 3 | 2))
        return;
    __u32 is_long = start[1] >> 7; /* the tensor's length has two bytes */
    __u8 tag = is_long ? start[3] : start[2], length = is_long ? start[4] : start[3];
    at += 4 + is_long + length;
    if (tag == (1 << 3 | 2) && length < 128 && at < room)
        http2_put_field(s, w, from + at, room - at, 2, HTTP2_TENSOR);
}

/* Reads the five bytes ahead of a message of gRPC. C-core divides its small slices anywhere: they may end in the next
 * part of the vector. */
static __always_inline bool http2_read_prefix(const struct http2_walk *w, __u8 prefix[5])
{
    struct {
        __u64 base, size;
    } v;
    if (w->part >= 5)
        return bpf_probe_read_user(prefix, 5, (const void *)w->base) == 0;
    if (!w->vectors || w->left < 5 - w->part || bpf_probe_read_user(&v, sizeof(v), (const void *)w->vector) < 0 ||
        v.size < 5 - w->part)
        return false;
    for (__u32 i = 0; i < 5; i++) {
        const __u64 at = i < w->part ? w->base + i : v.base + i - w->part;
        if (bpf_probe_read_user(&prefix[i], 1, (const void *)at) < 0)
            return false;
    }
    return true;
}

/* Reports a message of gRPC that begins with a DATA frame, with its length: it ends with the frame, or in a later one.
 */
static __always_inline void http2_put_message(struct http2_side *s, struct http2_walk *w)
{
    __u8 prefix[5];
    if (!http2_read_prefix(w, prefix))
        return;
    const __u64 end = sizeof(prefix) + ((__u64)prefix[1] << 24 | (__u32)prefix[2] << 16 | prefix[3] << 8 | prefix[4]);
    if (prefix[0] > 1 || end < s->skip || (end > s->skip && s->head[4] & HTTP2_END_STREAM))
        return;
    __u8 *at = &w->record.frames[table_index(w->used, 4095)];
    http2_put_head(s, w);
    at[0] = at[1] = at[4] = 0;
    at[2] = sizeof(prefix) - 1;
    at[3] = HTTP2_MESSAGE;
    __builtin_memcpy(at + HTTP2_HEAD_BYTES, &prefix[1], sizeof(prefix) - 1);
    w->used += sizeof(prefix) - 1;
}

/* The first bytes of a DATA frame. Of a request: a gRPC message, not compressed, that begins with a short field 1? */
static __always_inline void http2_take_body_inline(struct http2_walk *w)
{
    struct http2_side *s = &w->side;
    __u8 prefix[5];
    __u32 room = w->part < s->skip ? w->part : s->skip;
    if (s->finds_messages) {
        http2_put_message(s, w);
        return;
    }
    if (room < 7 || bpf_probe_read_user(prefix, 5, (const void *)w->base) < 0 || prefix[0] || prefix[1])
        return;
    __u32 length = (__u32)prefix[2] << 16 | prefix[3] << 8 | prefix[4];
    room -= 5;
    if (length < room)
        room = length;
    __u32 at = http2_put_field(s, w, w->base + 5, room, 1, HTTP2_FIELD_1);
    if (!at || at >= room)
        return;
    at += http2_put_field(s, w, w->base + 5 + at, room - at, 2, HTTP2_FIELD_2);
    if (at < room)
        http2_put_tensor(s, w, w->base + 5 + at, room - at);
}

__noinline int http2_take_body(void)
{
    struct http2_walk *w = http2_walk_find();
    if (w)
        http2_take_body_inline(w);
    return 0;
}

/* The head of a frame is complete. */
static __always_inline bool http2_take_head(struct http2_side *s, struct http2_walk *w, bool is_inline)
{
    __u64 head = *(const __u64 *)&s->head[0];
    __u32 type = s->head[3], length = http2_length(s->head);
    s->have = 0;
    if (!(is_inline ? http2_is_head_inline(head, s->head[8], false) : http2_is_head(head, s->head[8], false)))
        return false;
    s->skip = length;
    s->keep = http2_kept(type, length);
    w->is_control &= http2_is_control(type);
    s->is_data = type == HTTP2_DATA;
    s->is_body = s->is_data && length;
    if (type == HTTP2_DATA ? !length : http2_is_copied(type))
        http2_put_head(s, w);
    return true;
}

/* Whether `ahead` has the next `size` bytes; sets their place. */
static __always_inline bool http2_is_ahead(const struct http2_walk *w, __u32 size, __u64 *ret_at)
{
    __u64 at = w->base - w->ahead_base;
    *ret_at = table_index(at, HTTP2_AHEAD - 1);
    return w->ahead_size && at < HTTP2_AHEAD && at + size <= w->ahead_size;
}

/* Reads the head of the next frame, which this part of the vector has as a whole. */
static __always_inline bool http2_read_frame_head(struct http2_side *s, struct http2_walk *w)
{
    __u64 at;
    if (!http2_is_ahead(w, HTTP2_HEAD_BYTES, &at)) {
        __u64 size = at_most(w->part, HTTP2_AHEAD);
        if (bpf_probe_read_user(w->ahead, size, (const void *)w->base) < 0)
            return false;
        w->ahead_base = w->base;
        w->ahead_size = size;
        at = 0;
    }
    __builtin_memcpy(s->head, &w->ahead[at], HTTP2_HEAD_BYTES);
    return true;
}

/* Copies the next `n` bytes, at most HTTP2_PIECE, to the record. */
static __always_inline bool http2_copy(struct http2_walk *w, __u32 n)
{
    __u64 used = table_index(w->used, 4095), at;
    if (n <= HTTP2_SHORT && http2_is_ahead(w, n, &at))
        __builtin_memcpy(&w->record.frames[used], &w->ahead[at], HTTP2_SHORT);
    else if (n && bpf_probe_read_user(&w->record.frames[used], at_most(n, HTTP2_PIECE), (const void *)w->base) < 0)
        return false;
    w->used = used + n;
    return true;
}

/* Goes on by one frame, or to the end of this part of the vector. Returns whether the walk has ended. */
static __always_inline int http2_step_inline(struct http2_walk *w, bool is_inline)
{
    struct http2_side *s = &w->side;
    if (!w->part) {
        struct {
            __u64 base, size;
        } v;
        if (!w->left || !w->vectors || bpf_probe_read_user(&v, sizeof(v), (const void *)w->vector) < 0)
            return 1;
        w->vector += sizeof(v);
        w->vectors--;
        w->base = v.base;
        w->part = v.size < w->left ? v.size : w->left;
        w->left -= w->part;
        w->ahead_size = 0;
        return 0;
    }
    if (!s->skip) {
        __u32 have = at_most(s->have, HTTP2_HEAD_BYTES - 1), n = 1;
        if (have == 0 && w->part >= HTTP2_HEAD_BYTES) {
            n = HTTP2_HEAD_BYTES;
            if (!http2_read_frame_head(s, w))
                goto lost;
        } else if (bpf_probe_read_user(&s->head[have], 1, (const void *)w->base) < 0) {
            goto lost;
        }
        s->have = have + n;
        w->base += n;
        w->part -= n;
        if (s->have < HTTP2_HEAD_BYTES)
            return 0;
        if (!http2_take_head(s, w, is_inline))
            goto lost;
    }
    if (s->is_body && w->part) {
        s->is_body = 0;
        const bool is_wanted = s->finds_messages || (w->record.direction == HTTP2_RECEIVED && !s->is_client);
        if (is_wanted && is_inline)
            http2_take_body_inline(w);
        else if (is_wanted)
            http2_take_body();
    }
    __u32 n;
    if (s->keep) {
        n = at_most(s->keep < w->part ? s->keep : w->part, HTTP2_PIECE);
        if (!http2_copy(w, n))
            goto lost;
        s->keep -= n;
    } else {
        n = s->skip < w->part ? s->skip : w->part;
    }
    s->skip -= n;
    w->base += n;
    w->part -= n;
    if (s->is_data && !s->skip) {
        s->is_data = 0;
        http2_put_head(s, w);
    }
    if (w->used >= HTTP2_FLUSH_AT)
        http2_flush(s, w);
    return !s->is_live;
lost:
    http2_lose_step(s);
    return 1;
}

__noinline int http2_step(void)
{
    struct http2_walk *w = http2_walk_find();
    return w ? http2_step_inline(w, false) : 1;
}

static long http2_step_in_loop(__u64 i, void *context)
{
    struct http2_walk *w = http2_walk_find();
    return w ? http2_step_inline(w, true) : 1;
}

static __always_inline void http2_end_walk(struct http2_walk *w, bool has_ended)
{
    if (!has_ended)
        http2_lose_step(&w->side);
    if (w->used)
        http2_flush(&w->side, w);
}

/* Goes on by at most HTTP2_STRIDE steps. Returns whether the walk has ended. */
__noinline int http2_stride(void)
{
    int has_ended = 0;
    for (__u32 i = 0; i < HTTP2_STRIDE && !has_ended; i++)
        has_ended = http2_step();
    return has_ended;
}

/* Walks what the scratch describes. */
__noinline int http2_walk_all(void)
{
    struct http2_walk *w = http2_walk_find();
    int has_ended = 0;
    for (__u32 i = 0; i < HTTP2_STEPS / HTTP2_STRIDE && !has_ended; i++)
        has_ended = http2_stride();
    if (w)
        http2_end_walk(w, has_ended);
    return 0;
}

/* The same where no global function may be called. The kernel is one of 5.17 or later. */
static __noinline int http2_walk_in_loop(void)
{
    struct http2_walk *w = http2_walk_find();
    const long steps = bpf_loop(HTTP2_STEPS, http2_step_in_loop, NULL, 0);
    if (w)
        http2_end_walk(w, steps < HTTP2_STEPS);
    return 0;
}

/* `bytes` were missed. The walk stays in step if all of them belong to a payload that is not copied. */
static __always_inline void http2_miss(struct http2_side *s, __u32 bytes)
{
    if (!s->is_live)
        return;
    if (!s->have && !s->keep && bytes <= s->skip) {
        s->skip -= bytes;
        s->is_body = 0;
        return;
    }
    http2_lose_step(s);
}

/* Returns the address of the walk's next byte, and in `*ret_size` the bytes that follow each other there; 0: no bytes
 * are left, or they cannot be read. */
static __always_inline __u64 http2_first_bytes(struct http2_walk *w, __u32 *ret_size)
{
    struct {
        __u64 base, size;
    } v;
    *ret_size = w->part;
    if (w->part)
        return w->base;
    if (!w->vectors || bpf_probe_read_user(&v, sizeof(v), (const void *)w->vector) < 0)
        return 0;
    *ret_size = v.size < w->left ? v.size : w->left;
    return v.base;
}

/* The direction is out of step: does this call begin with a frame? */
static __always_inline int http2_begin_side_inline(struct http2_walk *w)
{
    struct http2_side *s = &w->side;
    __u64 head;
    __u8 last;
    __u32 size;
    __u64 at = http2_first_bytes(w, &size);
    if (!at || size < HTTP2_HEAD_BYTES || !http2_read_head(at, &head, &last))
        return 0;
    const bool is_preface = head == HTTP2_PREFACE;
    if (!is_preface && !http2_is_head_inline(head, last, true))
        return 0;
    s->is_live = 1;
    s->have = s->keep = s->is_data = s->is_body = 0;
    s->skip = is_preface ? HTTP2_PREFACE_BYTES : 0;
    return 1;
}

__noinline int http2_begin_side(void)
{
    struct http2_walk *w = http2_walk_find();
    return w ? http2_begin_side_inline(w) : 0;
}

/* Whether the `bytes` that were read look like whole frames: one frame that fills them, or two frame headers in
 * sequence. The first `size` of them follow each other at `buffer`. */
__noinline int http2_has_frames(__u64 buffer, __u32 size, __u32 bytes)
{
    __u64 head;
    __u8 last;
    if (bytes < HTTP2_HEAD_BYTES || !http2_read_head(buffer, &head, &last) || !http2_is_head(head, last, true))
        return 0;
    __u32 length = (head & 0xff) << 16 | (head & 0xff00) | (head >> 16 & 0xff);
    if (length + HTTP2_HEAD_BYTES == bytes)
        return 1;
    if (length + 2 * HTTP2_HEAD_BYTES > size)
        return 0;
    return http2_read_head(buffer + HTTP2_HEAD_BYTES + length, &head, &last) && http2_is_head(head, last, true);
}
