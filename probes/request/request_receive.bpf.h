/* What comes in: a request or more of one, or the answer of a service that was called for one. Part of request.bpf.c.
 */
#pragma once

#include "probes/request/request_absence.bpf.h"
#include "probes/request/request_http.bpf.h"

/* A reply, or more of one, from a service that some request called. */
static __always_inline void answered(struct request_thread *t, __u64 key, __u32 tid, struct sock *sk, __s32 number,
                                     __u64 now)
{
    struct request_call *call = bpf_map_lookup_elem(&calls, &key);
    if (!call)
        return;
    call->answered = true;
    if (call->connection == t->connection)
        return;
    struct request_connection *c = connection_find(call->connection);
    if (!c || !c->active || c->r.start_ns != call->request)
        return;
    struct request_wait_key cause = {.key = key, .sk = sk, .syscall = NR_epoll_wait, .object = REQUEST_OBJECT_SOCKET};
    resume(t, c, tid, &cause, now);
}

static __always_inline void take_more(struct request_thread *t, struct request_connection *c, __u32 tid,
                                      const void *buffer, __u32 size, __u32 bytes, __u64 now)
{
    if (t->connection != c->number) {
        struct request_wait_key cause = {.syscall = NR_epoll_wait, .object = REQUEST_OBJECT_CLIENT};
        resume(t, c, tid, &cause, now);
    }
    c->r.bytes_in += bytes;
    if (c->r.line_bytes < REQUEST_LINE_BYTES) {
        append_line(&c->r, buffer, size);
        if (c->partial && c->r.line_bytes >= 8) {
            c->partial = false;
            if (match_method(*(__u64 *)c->r.line, 8) != METHOD_WHOLE)
                c->active = false;
        }
    }
}

/* The next request on a persistent connection, in one read: the previous one must be recorded first. Bytes that are
 * not a request (the rest of a refused one, another protocol after an upgrade) clear its line: it gets no further
 * record. */
static __always_inline int take_next(struct request_connection *c, const void *buffer, __u32 size, __u64 now)
{
    if (c->active && (c->dirty || c->recorded_ns))
        publish(c->number, now, true);
    __u32 n = read_line(c->r.line, buffer, size);
    int match = n ? match_start(*(__u64 *)c->r.line, n) : METHOD_NONE;
    c->r.line_bytes = match == METHOD_NONE ? 0 : n;
    return match;
}

/* What the first bytes look like on a socket on which this thread has seen no request yet: most do not belong to a
 * server. */
static __always_inline int match_buffer(const void *buffer, __u32 size)
{
    __u64 head;
    __u32 known = read_head(buffer, size, &head);
    return known ? match_method(head, known) : METHOD_NONE;
}

/* These bytes begin a request. `c`: the socket's connection, of another thread; NULL: none yet. */
static __always_inline struct request_connection *first_contact(struct request_thread **t, struct sock *sk,
                                                                struct request_connection *c, __u64 pid_tgid,
                                                                const void *buffer, __u32 size, __u64 now,
                                                                int *ret_match)
{
    if (!*t)
        *t = thread_make(pid_tgid);
    if (!*t)
        return NULL;
    if (!c)
        c = connection_make(sk, pid_tgid);
    if (c)
        *ret_match = take_next(c, buffer, size, now);
    return c;
}

/* `found`: the socket's connection; NULL: none. `arrival_ns`: of the first of these bytes; 0: not known. `now`: 0: not
 * known yet. */
static __always_inline void received(struct sock *sk, struct request_connection *found, __s32 bytes, __u64 arrival_ns,
                                     const struct request_syscall *known, __u64 now)
{
    struct request_syscall call_made;
    __u64 pid_tgid = current_pid_tgid();
    __u32 tid = pid_tgid, size;
    int match = METHOD_NONE;
    if (asleep)
        return;
    struct request_thread *t = thread_find(tid);
    const struct request_syscall *call = syscall_known(known, &call_made);
    const void *buffer = syscall_buffer(call, &size);
    if (bytes < size)
        size = bytes;
    struct request_connection *c = t ? found : NULL;
    if (!c)
        match = match_buffer(buffer, size);
    if (!t && match == METHOD_NONE)
        return;
    now = now ?: bpf_ktime_get_ns();
    if (t && t->off_since_ns)
        catch_up(bpf_get_current_task(), tid, now);
    if (c && c->active && !c->replied) {
        take_more(t, c, tid, buffer, size, bytes, now);
        return;
    }
    if (c)
        match = take_next(c, buffer, size, now);
    else if (match != METHOD_NONE)
        c = first_contact(&t, sk, found, pid_tgid, buffer, size, now, &match);
    if (!t)
        return;
    if (match == METHOD_NONE) {
        answered(t, (__u64)sk, tid, sk, call->number, now);
        return;
    }
    if (!c)
        return;
    if (t->connection != c->number)
        turn_away(t, tid, now);
    if (!c->active) /* what was sent before was no reply */
        c->sent_seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq);
    if (!arrival_ns || arrival_ns > now) /* another CPU was just at it */
        arrival_ns = now;
    begin(t, c, pid_tgid, call->argument[0], arrival_ns, now);
    c->partial = match == METHOD_PART;
    c->r.bytes_in = bytes;
}
