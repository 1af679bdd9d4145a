/* HTTP/2 on the sockets of servers, both of their clients and of services that they call: hands the bytes that are
 * received and sent to the walk through frames (http2_walk.bpf.h). Part of request.bpf.c.
 *
 * A connection is recognized by its preface, or in its middle by two consistent frames; one that the process began, by
 * a send of whole frames. It then has an entry among the connections, and a state of the walk for each direction. TCP's
 * own count of bytes shows whether bytes were missed; the walk then goes on at a system call that begins with a frame.
 */
#pragma once

#include "probes/request/http2_walk.bpf.h"
#include "probes/request/request_calls.bpf.h"
#include "probes/request/request_publish.bpf.h"
#include "probes/request/request_recorder.bpf.h"

#define HTTP2_PARTS 1024

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

static __always_inline struct http2_side *http2_side_of(__u32 number, __u32 direction)
{
    __u32 index = number - 1;
    struct http2_walkers *w = bpf_map_lookup_elem(&http2_walkers, &index);
    return w ? &w->side[table_index(direction, 1)] : NULL;
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

/* Records that the operation of time `now` on this socket had nothing of a request. A global function,
 * for its stack. */
__noinline int http2_record_control(__u64 cookie, __u64 now)
{
    if (!has_recorder)
        return 0;
    const struct recorder_place place = recorder_place();
    struct recorder_record r = {.time_ns = now,
                                .kind = RECORDER_CONTROL,
                                .syscall = RECORDER_NO_SYSCALL,
                                .tid = bpf_get_current_pid_tgid(),
                                .object = cookie};
    if (place.cpu)
        recorder_put_object(&place, &r);
    return 0;
}

/* The current system call received or sent `bytes` on the connection of socket `socket`, its address. `arrival_ns`: of
 * the first byte; 0: not known. `now`: 0: not known, or not recorded. A global function, as publish(); it also keeps
 * its stack off its callers'. */
__noinline int http2_pass(__u64 number, __u64 socket, __s64 bytes, __u64 arrival_ns, __u64 now)
{
    const __u32 direction = bytes < 0 ? HTTP2_SENT : HTTP2_RECEIVED, size = bytes < 0 ? -bytes : bytes;
    const struct tcp_sock *tcp = (const struct tcp_sock *)socket;
    struct request_connection *c = connection_find(number);
    struct http2_side *s = http2_side_of(number, direction);
    struct http2_walk *w = http2_walk_idle();
    if (!s || !c || !socket)
        return 0;
    __u32 end = direction == HTTP2_SENT ? BPF_CORE_READ(tcp, write_seq) : BPF_CORE_READ(tcp, copied_seq);
    if (s->next_seq != end - size)
        http2_miss(s, end - size - s->next_seq);
    s->next_seq = end;
    if (!w || !http2_find_bytes(size)) {
        http2_miss(s, size);
        return 0;
    }
    w->side = *s;
    w->record.direction = direction;
    if (!s->is_live && !http2_begin_side())
        return 0;
    __u64 pid_tgid = current_pid_tgid();
    w->record.kind = HTTP2_RECORD_FRAMES;
    w->record.connection = c->r.socket;
    w->record.time_ns = now ?: bpf_ktime_get_ns();
    w->record.arrival_ns = arrival_ns;
    w->record.pid = pid_tgid >> 32;
    w->record.tid = pid_tgid;
    w->record.is_unsent = 0;
    w->is_control = !s->have && !s->skip;
    http2_walk_all();
    *s = w->side;
    if (now && w->is_control && s->is_live && !s->have && !s->skip)
        http2_record_control(c->r.socket, now);
    return 0;
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

/* From now on the connection's requests are streams. */
static __always_inline void http2_begin(struct request_connection *c, __u64 pid_tgid)
{
    c->r.h.pid = pid_tgid >> 32;
    c->r.h.tid = pid_tgid;
    connection_set_process(c, c->r.h.pid);
    c->active = c->is_http2 = true;
    c->replied = c->partial = c->dirty = c->counted = c->closing = false;
    c->r.line_bytes = 0;
    c->r.protocol = REQUEST_HTTP2;
    c->r.flags = (c->tls ? REQUEST_TLS : 0) | (c->is_client ? REQUEST_CLIENT : 0);
}

/* Reports the connection. The walks through its frames begin at the `bytes` that were just received, or that a client
 * has just sent. */
__noinline int http2_open(__u64 number, __u64 socket_address, __u32 bytes, int is_from_start)
{
    struct request_connection *c = connection_find(number);
    struct http2_side *in = http2_side_of(number, HTTP2_RECEIVED), *out = http2_side_of(number, HTTP2_SENT);
    struct http2_walk *w = http2_walk_idle();
    const struct tcp_sock *tcp = (const struct tcp_sock *)socket_address;
    if (!c || !in || !out || !w)
        return 0;
    __u64 pid_tgid = current_pid_tgid();
    http2_begin(c, pid_tgid);
    __builtin_memset(in, 0, sizeof(struct http2_walkers));
    in->next_seq = BPF_CORE_READ(tcp, copied_seq) - (c->is_client ? 0 : bytes);
    out->next_seq = BPF_CORE_READ(tcp, write_seq) - (c->is_client ? bytes : 0);
    in->is_client = c->is_client;
    /* Of replies, to know streams. Of calls: header fields may not show that they are gRPC's. */
    out->finds_messages = !c->is_client || !is_from_start;
    struct http2_opened *o = (struct http2_opened *)&w->record;
    o->kind = HTTP2_RECORD_OPENED;
    o->connection = c->r.socket;
    o->process = c->process;
    o->is_from_start = is_from_start;
    __builtin_memcpy(&o->r, &c->r, sizeof(o->r));
    if (bpf_ringbuf_output(&http2_ring, o, sizeof(*o), http2_wakeup()) == 0)
        return 0;
    c->active = c->is_http2 = false; /* its next frames are its beginning */
    lose(REQUEST_LOSS_RING_FULL);
    return 0;
}

/* Whether the `bytes` that the current system call has sent are whole frames, by a walk that keeps nothing. */
__noinline int http2_sends_frames(__u32 bytes)
{
    struct http2_walk *w = http2_walk_idle();
    if (!w || !http2_find_bytes(bytes))
        return 0;
    __builtin_memset(&w->side, 0, sizeof(w->side));
    w->record.direction = HTTP2_SENT;
    w->is_trial = true;
    if (http2_begin_side())
        http2_walk_all();
    w->is_trial = false;
    return w->side.is_live && !w->side.have && !w->side.skip;
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
    struct http2_event r = {.kind = HTTP2_RECORD_CLOSED, .connection = c->tls ? c->r.id : c->r.socket, .time_ns = now};
    c->active = c->is_http2 = false;
    if (bpf_ringbuf_output(&http2_ring, &r, sizeof(r), http2_wakeup()) < 0)
        lose(REQUEST_LOSS_RING_FULL);
}
