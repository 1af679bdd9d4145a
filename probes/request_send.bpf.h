/* What goes out: a reply or more of one, or a call to another service; and the end of connections. Part of request.bpf.c. */
#pragma once

#include "request_http.bpf.h"
#include "request_absence.bpf.h"

/* A thread that works on a request sends to somebody else: a call to another service. */
static __always_inline void called(struct request_thread *t, __u64 key, __u32 tid, struct sock *sk, bool connecting, __u64 now)
{
    struct request_call *call = bpf_map_lookup_elem(&calls, &key);
    if (call && !connecting && !call->answered) { /* connected for a request, or still sending for it */
        if (call->connection == t->connection) {
            call->sent = true;
            return;
        }
        struct request_connection *c = connection_find(call->connection);
        if (c && c->active && !c->replied && c->r.start_ns == call->request) {
            struct request_wait_key cause = {.key = key, .sk = sk, .syscall = NR_epoll_wait, .object = REQUEST_OBJECT_SOCKET};
            call->sent = true;
            resume(t, c, tid, &cause, now);
            return;
        }
    }
    struct request_connection *c = current_of(t, tid);
    if (!c || c->replied)
        return;
    struct request_call fresh = {.connection = t->connection, .request = c->r.start_ns, .sent = !connecting};
    bpf_map_update_elem(&calls, &key, &fresh, BPF_ANY);
}

/* The reply's status line, which may come in pieces: true when the reply has begun, false while it may still. What turns out not to
 * be HTTP is forgotten. */
static __always_inline bool take_head(struct request_connection *c, const struct request_syscall *call, __u32 bytes)
{
    __u32 size;
    const void *buffer = syscall_buffer(call, &size);
    if (bytes < size)
        size = bytes;
    if (!buffer)
        return false;
    if (c->head_bytes == 0 && size >= 16) {
        if (bpf_probe_read_user(c->head, 16, buffer) < 0)
            return false;
        c->head_bytes = 16;
    } else {
        for (int i = 0; i < REPLY_BYTES; i++) {
            __u64 at = at_most(c->head_bytes, 15);
            if (i >= size || at >= REPLY_BYTES)
                break;
            if (bpf_probe_read_user(&c->head[at], 1, buffer + i) < 0)
                break;
            c->head_bytes = at + 1;
        }
    }
    __u64 start = *(__u64 *)c->head;
    if (low_bytes(start ^ REPLY_START, c->head_bytes < 7 ? c->head_bytes : 7)) {
        c->active = false;
        return false;
    }
    if (c->head_bytes < REPLY_BYTES)
        return false;
    __u32 hundreds = c->head[9] - '0', tens = c->head[10] - '0', ones = c->head[11] - '0';
    if (hundreds > 9 || tens > 9 || ones > 9) {
        c->active = false;
        return false;
    }
    __u32 status = hundreds * 100 + tens * 10 + ones;
    if (hundreds == 1 && status != 101) { /* "100 Continue": the reply is still to come */
        c->head_bytes = 0;
        return false;
    }
    c->r.status = status;
    return true;
}

/* Another status line on a connection whose reply was out: the answer to a request that came in together with the last one. */
static __always_inline bool is_next_reply(const struct request_syscall *call, __u32 bytes)
{
    __u32 size;
    __u64 head;
    const void *buffer = syscall_buffer(call, &size);
    if (bytes < size)
        size = bytes;
    return size >= REPLY_BYTES && read_head(buffer, size, &head) == 8 && low_bytes(head ^ REPLY_START, 7) == 0;
}

static __always_inline void begin_pipelined(struct request_thread *t, struct request_connection *c, __u64 pid_tgid, __u64 now)
{
    __u64 start = c->r.start_ns + c->r.duration_ns;
    publish(c->number, now, true);
    begin(t, c, pid_tgid, c->fd, start);
    c->r.line_bytes = 0;
    c->r.flags = REQUEST_PIPELINED;
}

/* A connection ends: so does the request on it, replied to or not. */
static __always_inline void finish(struct request_connection *c, struct sock *sk, __u64 now)
{
    if (!c->active)
        return;
    c->active = false;
    if (c->parked_ns && !c->replied) {
        __sync_fetch_and_add(&parked_requests, -1);
        c->tail = true;
        c->tail_unattributed_ns += now - c->parked_ns;
    }
    if (c->replied) {
        if (c->dirty || c->recorded_ns)
            publish(c->number, now, true);
        return;
    }
    __u32 unseen = BPF_CORE_READ((struct tcp_sock *)sk, write_seq) - c->write_seq - (__u32)c->sent_bytes;
    if (c->partial || !has_version(&c->r))
        return;
    if (unseen > 1) { /* somebody replied, in a way that is not seen here */
        lose(REQUEST_LOSS_UNMATCHED);
        return;
    }
    commit_tail(c);
    c->r.duration_ns = now - c->r.start_ns;
    c->r.flags |= REQUEST_NO_REPLY;
    c->dirty = true;
    publish(c->number, now, true);
}

static __always_inline void forget(struct request_connection *c, struct sock *sk, __u64 now)
{
    finish(c, sk, now);
    connection_drop(c, sk);
}

static __always_inline void sent(struct sock *sk, __s32 bytes, const struct request_syscall *call)
{
    __u64 pid_tgid = current_pid_tgid();
    __u32 tid = pid_tgid;
    if (asleep)
        return;
    struct request_thread *t = thread_find(tid);
    if (!t && !*(volatile __u64 *)&parked_requests)
        return;
    struct request_connection *c = connection_of(sk);
    if (!c) {
        if (t && bytes > 0)
            called(t, (__u64)sk, tid, sk, false, bpf_ktime_get_ns());
        return;
    }
    if (!c->active)
        return;
    if (!t) {
        t = thread_make(pid_tgid);
        if (!t)
            return;
    }
    __u64 now = bpf_ktime_get_ns();
    if (t->off_since_ns)
        catch_up(bpf_get_current_task(), tid, now);
    if (bytes <= 0) {
        c->blocked = bytes == -11 /* EAGAIN */;
        if (c->closing)
            forget(c, sk, now);
        return;
    }
    if (t->connection != c->number) {
        struct request_wait_key cause = {.syscall = NR_epoll_wait,
                                         .object = c->blocked ? REQUEST_OBJECT_CLIENT : REQUEST_OBJECT_EVENT_LOOP};
        resume(t, c, tid, &cause, now);
    }
    c->blocked = (call->number == NR_write || call->number == NR_sendto) && (__u64)bytes < call->argument[2];
    c->sent_bytes += bytes;
    if (c->replied && is_next_reply(call, bytes))
        begin_pipelined(t, c, pid_tgid, now);
    if (!c->replied) {
        if (!take_head(c, call, bytes)) {
            c->r.bytes_out += bytes;
            return;
        }
        c->replied = true;
    }
    commit_tail(c);
    c->r.bytes_out += bytes;
    c->r.duration_ns = now - c->r.start_ns;
    if (c->r.flags & (REQUEST_HANDED_OVER | REQUEST_PIPELINED)) {
        c->r.flags &= ~REQUEST_ACCOUNTED;
    } else {
        c->r.flags |= REQUEST_ACCOUNTED;
        c->r.runtime_ns = current_runtime() - c->runtime_start_ns;
    }
    c->dirty = true;
    if (c->closing)
        forget(c, sk, now);
}
