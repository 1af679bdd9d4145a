/* What goes out: a reply or more of one, or a call to another service; and the end of connections. Part of
 * request.bpf.c. */
#pragma once

#include "probes/request/request_absence.bpf.h"
#include "probes/request/request_http.bpf.h"
#include "probes/request/request_recorder.bpf.h"

/* A thread that works on a request sends to another socket: a call to another service. */
static __always_inline void called(struct request_thread *t, __u64 key, __u32 tid, struct sock *sk, bool connecting,
                                   __u64 now)
{
    struct request_call *call = bpf_map_lookup_elem(&calls, &key);
    if (call && !connecting && !call->answered) { /* connected for a request, or still sending for it */
        if (call->connection == t->connection) {
            call->sent = true;
            return;
        }
        struct request_connection *c = connection_find(call->connection);
        if (c && c->active && !c->replied && c->r.start_ns == call->request) {
            struct request_wait_key cause = {
                .key = key, .sk = sk, .syscall = NR_epoll_wait, .object = REQUEST_OBJECT_SOCKET};
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

/* The reply's status line, which may come in pieces: true when the reply has begun, false while it may still. What
 * turns out not to be HTTP is forgotten. */
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

/* Another status line on a connection whose reply was out: the answer to a request that came in together with the last
 * one. */
static __always_inline bool is_next_reply(const struct request_syscall *call, __u32 bytes)
{
    __u32 size;
    __u64 head;
    const void *buffer = syscall_buffer(call, &size);
    if (bytes < size)
        size = bytes;
    return size >= REPLY_BYTES && read_head(buffer, size, &head) == 8 && low_bytes(head ^ REPLY_START, 7) == 0;
}

static __always_inline void begin_pipelined(struct request_thread *t, struct request_connection *c, __u64 pid_tgid,
                                            __u64 now)
{
    __u64 start = c->r.start_ns + c->r.duration_ns;
    publish(c->number, now, true);
    begin(t, c, pid_tgid, c->fd, start, start);
    c->r.line_bytes = 0;
    c->r.flags = REQUEST_PIPELINED;
}

/* A connection ends: so does the request on it, replied to or not. */
static __always_inline void finish(struct request_connection *c, __u64 now)
{
    if (!c->active)
        return;
    c->active = false;
    if (c->parked_ns && !c->replied) {
        c->tail = true;
        c->tail_unattributed_ns += now - c->parked_ns;
    }
    if (c->replied) {
        if (c->dirty || c->recorded_ns)
            publish(c->number, now, true);
        return;
    }
    if (c->partial || !has_version(c))
        return;
    commit_tail(c);
    c->r.duration_ns = now - c->r.start_ns;
    c->r.flags |= REQUEST_NO_REPLY;
    c->dirty = true;
    publish(c->number, now, true);
}

static __always_inline void forget(struct request_connection *c, struct sock *sk, __u64 now)
{
    finish(c, now);
    if (connection_unname(sk))
        table_release(REQUEST_CLAIM_CONNECTION | (c->number - 1));
}

static __always_inline __u64 unfinished_key(__u32 pid, __s32 fd)
{
    return (__u64)pid << 32 | (__u32)fd;
}

static __always_inline __s32 send_fd(const struct request_syscall *call)
{
    return call->number == NR_splice ? call->argument[2] : call->argument[0];
}

/* The connection has ended and its request was set aside: is all there now? */
__noinline int complete(__u64 number, __u64 now)
{
    struct request_connection *c = connection_find(number);
    if (!c)
        return 0;
    __u64 key = unfinished_key(c->r.h.pid, c->fd);
    struct request_unfinished *u = bpf_map_lookup_elem(&unfinished, &key);
    if (!u || u->connection != number || u->end_seq != c->sent_seq || bpf_map_delete_elem(&unfinished, &key))
        return 0;
    lose_not(REQUEST_LOSS_UNMATCHED);
    finish(c, now);
    table_release(REQUEST_CLAIM_CONNECTION | (number - 1));
    return 0;
}

/* A connection ends, and bytes were sent on it that were not seen. If a send is in progress, its return completes the
 * request (find_unfinished); otherwise the end of the request was never seen, and what is known of it is final. False:
 * not a request after all. */
__noinline int set_aside(__u64 number, __u64 socket, __u32 end_seq, __u64 now)
{
    struct request_connection *c = connection_find(number);
    if (!c || (!c->replied && (c->partial || !has_version(c))))
        return 0;
    struct request_unfinished u = {
        .connection = number, .request = c->r.start_ns, .socket = socket, .ended_ns = now, .end_seq = end_seq};
    __u64 key = unfinished_key(c->r.h.pid, c->fd);
    if (c->replied && (c->dirty || c->recorded_ns))
        publish(number, now, true);
    lose(REQUEST_LOSS_UNMATCHED);
    bpf_map_update_elem(&unfinished, &key, &u, BPF_ANY);
    unfinished_until_ns = now + UNFINISHED_NS;
    c->closing = true;
    return 1;
}

/* As poll() sees it: a loop that now waits until it may send more waits for the client. */
static __always_inline bool is_full(struct sock *sk)
{
    __s32 queued = has_socket_cookies ? sk->sk_wmem_queued : BPF_CORE_READ(sk, sk_wmem_queued);
    __s32 room = has_socket_cookies ? sk->sk_sndbuf : BPF_CORE_READ(sk, sk_sndbuf);
    return room - queued < queued >> 1;
}

/* A thread returns from a send on `fd` whose connection is unknown: was the connection set aside because of this send?
 * On its own socket the send may be a part of what is missing; if a closed descriptor hides the socket (0), it must be
 * all of it. Returns the connection's number; 0: no. */
__noinline __u64 find_unfinished(__s32 fd, __u32 bytes, __u64 socket, __u64 now)
{
    __u64 key = unfinished_key(bpf_get_current_pid_tgid() >> 32, fd);
    struct request_unfinished *u = bpf_map_lookup_elem(&unfinished, &key);
    struct request_connection *c = u ? connection_find(u->connection) : NULL;
    if (!u || !c || !c->closing || !c->active || c->r.start_ns != u->request || now > u->ended_ns + UNFINISHED_NS)
        return 0;
    __u32 missing = u->end_seq - c->sent_seq;
    if (socket ? socket != u->socket || bytes > missing : bytes != missing)
        return 0;
    return c->number;
}

static __always_inline struct request_connection *unfinished_of(struct sock *sk, __s32 bytes,
                                                                const struct request_syscall *call)
{
    if (!unfinished_until_ns || bytes <= 0)
        return NULL;
    __u64 now = bpf_ktime_get_ns();
    if (now > unfinished_until_ns) {
        unfinished_until_ns = 0;
        return NULL;
    }
    return connection_find(find_unfinished(send_fd(call), bytes, number_of(sk), now));
}

/* The rest of a reply, whose sender is beyond where sends are seen. */
__noinline int take_rest(__u64 number, __u32 end_seq, __u64 now)
{
    struct request_connection *c = connection_find(number);
    __u32 tid = bpf_get_current_pid_tgid();
    if (!c)
        return 0;
    if (c->parked_ns || c->tid != tid) {
        c->r.flags = (c->r.flags | REQUEST_HANDED_OVER) & ~REQUEST_ACCOUNTED;
        c->tail = true;
        c->tail_unattributed_ns += c->parked_ns ? now - c->parked_ns : unexplained(c, now);
        c->parked_ns = 0;
    }
    commit_tail(c);
    c->r.bytes_out += end_seq - c->sent_seq;
    c->r.duration_ns = now - c->r.start_ns;
    c->sent_seq = end_seq;
    c->dirty = true;
    return complete(number, now);
}

/* `sk` is NULL where a descriptor was closed before the send on it was over. `c`: its connection; NULL: none. `now`: 0:
 * not known yet. */
static __always_inline void sent(struct sock *sk, struct request_connection *c, __s32 bytes,
                                 const struct request_syscall *known, __u64 now)
{
    struct request_syscall call_made;
    __u64 pid_tgid = current_pid_tgid();
    __u32 tid = pid_tgid;
    if (asleep)
        return;
    struct request_thread *t = thread_find(tid);
    if (!t && !unfinished_until_ns && !c) /* any thread may send a reply, or the rest of one: the socket decides */
        return;
    now = now ?: bpf_ktime_get_ns();
    const struct request_syscall *call = syscall_known(known, &call_made);
    if (!c)
        c = unfinished_of(sk, bytes, call);
    if (!c) {
        if (t && sk && bytes > 0)
            called(t, (__u64)sk, tid, sk, false, now);
        return;
    }
    if (!c->active || (c->replied && c->r.status == 101)) /* after it, another protocol */
        return;
    if (!t) {
        t = thread_make(pid_tgid);
        if (!t)
            return;
    }
    if (t->off_since_ns)
        catch_up(bpf_get_current_task(), tid, now);
    if (bytes <= 0) {
        c->blocked = bytes == -11 /* EAGAIN */;
        return;
    }
    if (t->connection != c->number) {
        struct request_wait_key cause = {.syscall = NR_epoll_wait,
                                         .object = c->blocked ? REQUEST_OBJECT_CLIENT : REQUEST_OBJECT_EVENT_LOOP};
        resume(t, c, tid, &cause, now);
    }
    c->blocked =
        ((call->number == NR_write || call->number == NR_sendto) && (__u64)bytes < call->argument[2]) || is_full(sk);
    c->sent_seq += bytes;
    bool closing = c->closing;
    if (c->replied && is_next_reply(call, bytes))
        begin_pipelined(t, c, pid_tgid, now);
    c->closing = closing;
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
        c->r.stolen_ns = current_stolen(t, now) - c->stolen_start_ns;
    }
    c->dirty = true;
    if (closing)
        complete(c->number, now);
}
