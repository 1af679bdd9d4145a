/* HTTP/2 on the sockets of servers: finds the frames in the bytes received and sent, and copies the parts that describe
 * requests to the ring (http2.h). Part of request.bpf.c.
 *
 * A connection is recognized by its preface, or in its middle by two consistent frames. It then has an entry among the
 * connections, and both of its directions a walker: a few bytes of state that say where in a frame the next byte is.
 * TCP's own count of bytes shows whether bytes were missed; the walker then waits for a system call that begins with a
 * frame. */
#pragma once

#include "probes/request/http2.h"
#include "probes/request/request_calls.bpf.h"
#include "probes/request/request_publish.bpf.h"

#define HTTP2_STEPS    2048 /* frames and parts of vectors in one system call */
#define HTTP2_PIECE    512
#define HTTP2_FLUSH_AT 3584
#define HTTP2_PARTS    1024
#define HTTP2_AHEAD    256 /* bytes that are read at once: most frames are smaller */
#define HTTP2_SHORT    64  /* a copy of at most so many bytes needs no call */

struct http2_side {
    __u32 next_seq; /* TCP's count at the next byte */
    __u32 skip;     /* bytes of payload to come, */
    __u32 keep;     /* and how many of them are copied */
    __u8 have;      /* bytes of `head` */
    __u8 is_live;   /* in step with the frames */
    __u8 has_gap;   /* bytes were missed, and no record said so yet */
    __u8 is_data;   /* the frame is DATA: its head is copied at its end, */
    __u8 head[HTTP2_HEAD_BYTES];
    __u8 is_body; /* and its payload has just begun */
    __u8 reserved[6];
};

struct http2_walkers {
    struct http2_side side[2];
};
_Static_assert(sizeof(struct http2_walkers) == 64, "a line of cache");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE); /* for its alignment */
    __uint(max_entries, REQUEST_CONNECTIONS_MAX);
    __type(key, __u32);
    __type(value, struct http2_walkers);
} http2_walkers SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1024 * 1024);
} http2_ring SEC(".maps");

/* The state of the walk over the bytes of one system call, and the record that it fills. */
struct http2_walk {
    __u64 vector, base; /* addresses: of the next part of the vector, of the next byte */
    __u32 part, left;   /* bytes: of this part, of the parts after it */
    __u32 vectors;
    __u32 used;
    struct syscall_registers registers; /* a copy, where they cannot be read directly */
    struct http2_frames record;
    __u8 beyond[HTTP2_PIECE];
    __u64 ahead_base; /* address of the bytes in `ahead`, */
    __u32 ahead_size; /* and how many bytes; 0: none */
    __u8 ahead[HTTP2_AHEAD + HTTP2_SHORT];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct http2_walk);
} http2_walk SEC(".maps");

static __always_inline struct http2_side *http2_side_of(__u32 number, __u32 direction)
{
    __u32 index = number - 1;
    struct http2_walkers *w = bpf_map_lookup_elem(&http2_walkers, &index);
    return w ? &w->side[table_index(direction, 1)] : NULL;
}

static __always_inline struct http2_walk *http2_walk_find(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&http2_walk, &zero);
}

static __always_inline __u64 http2_wakeup(void)
{
    return bpf_ringbuf_query(&http2_ring, BPF_RB_AVAIL_DATA) > 256 * 1024 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/* Whether these nine bytes may be the head of a frame. `is_strict`: by its flags, too, which servers ignore. */
__noinline int http2_is_head(__u64 head, __u8 last, int is_strict)
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

static __always_inline bool http2_read_head(__u64 at, __u64 *ret_head, __u8 *ret_last)
{
    return bpf_probe_read_user(ret_head, 8, (const void *)at) == 0 &&
           bpf_probe_read_user(ret_last, 1, (const void *)at + 8) == 0;
}

static __always_inline void http2_flush(struct http2_side *s, struct http2_walk *w)
{
    struct http2_frames *r = &w->record;
    __u64 bytes = at_most(w->used, HTTP2_FRAMES_BYTES);
    r->bytes = bytes;
    r->is_after_gap = s->has_gap;
    s->has_gap = 0;
    w->used = 0;
    if (bpf_ringbuf_output(&http2_ring, r, HTTP2_FRAMES_HEAD + bytes, http2_wakeup()) == 0)
        return;
    s->is_live = 0;
    s->has_gap = 1;
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

/* The type of the first tensor of KServe's ModelInferRequest, whose name and version end at `from`: an id (field 3) may
 * follow, then the tensor (field 5), in which the name (field 1) comes before the type (field 2). */
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

/* The first bytes of a DATA frame of a request: a gRPC message, not compressed, that begins with a short field 1? */
__noinline int http2_take_body(__u32 number)
{
    struct http2_side *s = http2_side_of(number, HTTP2_RECEIVED);
    struct http2_walk *w = http2_walk_find();
    __u8 prefix[5];
    if (!s || !w)
        return 0;
    __u32 room = w->part < s->skip ? w->part : s->skip;
    if (room < 7 || bpf_probe_read_user(prefix, 5, (const void *)w->base) < 0 || prefix[0] || prefix[1])
        return 0;
    __u32 length = (__u32)prefix[2] << 16 | prefix[3] << 8 | prefix[4];
    room -= 5;
    if (length < room)
        room = length;
    __u32 at = http2_put_field(s, w, w->base + 5, room, 1, HTTP2_FIELD_1);
    if (!at || at >= room)
        return 0;
    at += http2_put_field(s, w, w->base + 5 + at, room - at, 2, HTTP2_FIELD_2);
    if (at < room)
        http2_put_tensor(s, w, w->base + 5 + at, room - at);
    return 0;
}

/* The head of a frame is complete. */
static __always_inline bool http2_take_head(struct http2_side *s, struct http2_walk *w)
{
    __u64 head = *(const __u64 *)&s->head[0];
    __u32 type = s->head[3], length = http2_length(s->head);
    s->have = 0;
    if (!http2_is_head(head, s->head[8], false))
        return false;
    s->skip = length;
    s->keep = http2_kept(type, length);
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
__noinline int http2_step(__u32 number, __u32 direction)
{
    struct http2_side *s = http2_side_of(number, direction);
    struct http2_walk *w = http2_walk_find();
    if (!s || !w)
        return 1;
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
        if (!http2_take_head(s, w))
            goto lost;
    }
    if (s->is_body && w->part) {
        s->is_body = 0;
        if (direction == HTTP2_RECEIVED)
            http2_take_body(number);
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
    s->is_live = 0;
    s->has_gap = 1;
    return 1;
}

/* Walks what w describes. */
__noinline int http2_walk_all(__u32 number, __u32 direction)
{
    struct http2_side *s = http2_side_of(number, direction);
    struct http2_walk *w = http2_walk_find();
    __u32 i;
    if (!s || !w)
        return 0;
    for (i = 0; i < HTTP2_STEPS; i++)
        if (http2_step(number, direction))
            break;
    if (i == HTTP2_STEPS) {
        s->is_live = 0;
        s->has_gap = 1;
    }
    if (w->used)
        http2_flush(s, w);
    return 0;
}

/* As syscall_current, with the copy of the registers in `w`: callers have little stack left. */
static __always_inline void http2_syscall(struct http2_walk *w, struct request_syscall *ret)
{
    *ret = (struct request_syscall){.number = -1};
    if (has_task_registers) {
        syscall_from_registers((const struct syscall_registers *)bpf_task_pt_regs(bpf_get_current_task_btf()), ret);
        return;
    }
    void *top = BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), stack) + stack_offset;
    if (bpf_probe_read_kernel(&w->registers, sizeof(w->registers), top - sizeof(w->registers)) == 0)
        syscall_from_registers(&w->registers, ret);
}

/* Finds the bytes that the current system call received or sent, in user memory. Returns 0 if they cannot be seen
 * (sendfile, io_uring). */
__noinline int http2_find_bytes(__u32 bytes)
{
    struct http2_walk *w = http2_walk_find();
    struct request_syscall call;
    struct {
        __u64 vector, count;
    } message;
    if (!w)
        return 0;
    http2_syscall(w, &call);
    w->used = w->part = w->left = w->vectors = w->ahead_size = 0;
    w->base = call.argument[1];
    switch (call.number) {
    case NR_read:
    case NR_write:
    case NR_recvfrom:
    case NR_sendto:
        w->part = bytes;
        return 1;
    case NR_recvmsg:
    case NR_sendmsg:
        if (bpf_probe_read_user(&message, sizeof(message), (const void *)call.argument[1] + 16) < 0)
            return 0;
        break;
    case NR_readv:
    case NR_writev:
        message.vector = call.argument[1];
        message.count = call.argument[2];
        break;
    default:
        return 0;
    }
    w->vector = message.vector;
    w->vectors = message.count < HTTP2_PARTS ? message.count : HTTP2_PARTS;
    w->left = bytes;
    return 1;
}

/* `bytes` were missed. The walker stays in step if all of them belong to a payload that is not copied. */
static __always_inline void http2_miss(struct http2_side *s, __u32 bytes)
{
    if (!s->is_live)
        return;
    if (!s->have && !s->keep && bytes <= s->skip) {
        s->skip -= bytes;
        s->is_body = 0;
        return;
    }
    s->is_live = 0;
    s->has_gap = 1;
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

/* The walker is out of step: does this system call begin with a frame? */
__noinline int http2_begin_side(__u32 number, __u32 direction)
{
    struct http2_side *s = http2_side_of(number, direction);
    struct http2_walk *w = http2_walk_find();
    __u64 head;
    __u8 last;
    __u32 size;
    if (!s || !w)
        return 0;
    __u64 at = http2_first_bytes(w, &size);
    if (!at || size < HTTP2_HEAD_BYTES || !http2_read_head(at, &head, &last))
        return 0;
    const bool is_preface = head == HTTP2_PREFACE && direction == HTTP2_RECEIVED;
    if (!is_preface && !http2_is_head(head, last, true))
        return 0;
    s->is_live = 1;
    s->have = s->keep = s->is_data = s->is_body = 0;
    s->skip = is_preface ? HTTP2_PREFACE_BYTES : 0;
    return 1;
}

/* The current system call received or sent `bytes` on the connection of socket `socket`, its address. `arrival_ns`: of
 * the first byte; 0: not known. `now`: 0: not known. A global function, as publish(); it also keeps its stack off its
 * callers'. */
__noinline int http2_pass(__u64 number, __u64 socket, __s64 bytes, __u64 arrival_ns, __u64 now)
{
    const __u32 direction = bytes < 0 ? HTTP2_SENT : HTTP2_RECEIVED, size = bytes < 0 ? -bytes : bytes;
    const struct tcp_sock *tcp = (const struct tcp_sock *)socket;
    struct request_connection *c = connection_find(number);
    struct http2_side *s = http2_side_of(number, direction);
    struct http2_walk *w = http2_walk_find();
    if (!s || !w || !c || !socket)
        return 0;
    __u32 end = direction == HTTP2_SENT ? BPF_CORE_READ(tcp, write_seq) : BPF_CORE_READ(tcp, copied_seq);
    if (s->next_seq != end - size)
        http2_miss(s, end - size - s->next_seq);
    s->next_seq = end;
    if (!http2_find_bytes(size)) {
        http2_miss(s, size);
        return 0;
    }
    if (!s->is_live && !http2_begin_side(number, direction))
        return 0;
    __u64 pid_tgid = current_pid_tgid();
    w->record.kind = HTTP2_RECORD_FRAMES;
    w->record.number = number;
    w->record.socket = c->r.socket;
    w->record.time_ns = now ?: bpf_ktime_get_ns();
    w->record.arrival_ns = arrival_ns;
    w->record.pid = pid_tgid >> 32;
    w->record.tid = pid_tgid;
    w->record.direction = direction;
    return http2_walk_all(number, direction);
}

static __always_inline void http2_receive(struct request_connection *c, struct sock *sk, __u32 bytes, __u64 arrival_ns,
                                          __u64 now)
{
    http2_pass(c->number, number_of(sk), bytes, arrival_ns, now);
}

static __always_inline void http2_send(struct request_connection *c, struct sock *sk, __u32 bytes, __u64 now)
{
    http2_pass(c->number, number_of(sk), -(__s64)bytes, 0, now);
}

/* Reports the connection, whose walkers begin at the bytes that were just received. */
__noinline int http2_open(__u64 number, __u64 socket_address, __u32 bytes, int is_from_start)
{
    struct request_connection *c = connection_find(number);
    struct http2_side *in = http2_side_of(number, HTTP2_RECEIVED), *out = http2_side_of(number, HTTP2_SENT);
    struct http2_walk *w = http2_walk_find();
    const struct tcp_sock *tcp = (const struct tcp_sock *)socket_address;
    if (!c || !in || !out || !w)
        return 0;
    __u64 pid_tgid = current_pid_tgid();
    c->r.h.pid = pid_tgid >> 32;
    c->r.h.tid = pid_tgid;
    c->process = current_process(c->r.h.pid);
    c->active = c->is_http2 = true;
    c->replied = c->partial = c->dirty = c->counted = c->closing = false;
    c->r.line_bytes = 0;
    c->r.protocol = REQUEST_HTTP2;
    __builtin_memset(in, 0, sizeof(struct http2_walkers));
    in->next_seq = BPF_CORE_READ(tcp, copied_seq) - bytes;
    out->next_seq = BPF_CORE_READ(tcp, write_seq);
    struct http2_opened *o = (struct http2_opened *)&w->record;
    o->kind = HTTP2_RECORD_OPENED;
    o->number = number;
    o->process = c->process;
    o->is_from_start = is_from_start;
    __builtin_memcpy(&o->r, &c->r, sizeof(o->r));
    if (bpf_ringbuf_output(&http2_ring, o, sizeof(*o), http2_wakeup()) == 0)
        return 0;
    c->active = c->is_http2 = false; /* its next frames are its beginning */
    lose(REQUEST_LOSS_RING_FULL);
    return 0;
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

/* Whether the bytes that were read begin HTTP/2, or are in its middle: `head` has the first `known` of 8 bytes. */
static __always_inline bool http2_can_begin(__u64 head, __u32 known, const void *buffer, __u32 size, __u32 bytes)
{
    if (known < 8)
        return false;
    return head == HTTP2_PREFACE ||
           ((__u8)(head >> 24) <= HTTP2_CONTINUATION && http2_has_frames((__u64)buffer, size, bytes));
}

/* The connection has ended. May run in an interrupt of a walk. */
static __always_inline void http2_close(struct request_connection *c, __u64 now)
{
    struct http2_closed r = {.kind = HTTP2_RECORD_CLOSED, .number = c->number, .socket = c->r.socket, .time_ns = now};
    c->active = c->is_http2 = false;
    if (bpf_ringbuf_output(&http2_ring, &r, sizeof(r), http2_wakeup()) < 0)
        lose(REQUEST_LOSS_RING_FULL);
}
