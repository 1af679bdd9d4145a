/* The end of connections, and of requests with them; and sends whose return is seen only afterwards. Part of
 * request.bpf.c. */
#pragma once

#include "probes/request/request_receive.bpf.h"

/* A connection ends: so does the request on it, replied to or not. */
static __always_inline void finish(struct request_connection *c, __u64 now)
{
    if (!c->active)
        return;
    c->active = false;
    thread_answered(c);
    if (c->replied) {
        publish_last(c, now);
        return;
    }
    if (c->partial || !has_version(c))
        return;
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
 * request (find_unfinished); otherwise the end of the request was never seen, and the known part of it is final. False:
 * not a request after all. */
__noinline int set_aside(__u64 number, __u64 socket, __u32 end_seq, __u64 now)
{
    struct request_connection *c = connection_find(number);
    if (!c || (!c->replied && (c->partial || !has_version(c))))
        return 0;
    struct request_unfinished u = {
        .connection = number, .request = c->r.start_ns, .socket = socket, .ended_ns = now, .end_seq = end_seq};
    __u64 key = unfinished_key(c->r.h.pid, c->fd);
    if (c->replied)
        publish_last(c, now);
    lose(REQUEST_LOSS_UNMATCHED);
    bpf_map_update_elem(&unfinished, &key, &u, BPF_ANY);
    unfinished_until_ns = now + UNFINISHED_NS;
    c->closing = true;
    return 1;
}

/* A thread returns from a send on `fd` whose connection is unknown: was the connection set aside because of this send?
 * On its own socket the send may be a part of the missing bytes; if a closed descriptor hides the socket (0), it must
 * be all of them. Returns the connection's number; 0: no. */
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
    if (!c)
        return 0;
    c->r.bytes_out += end_seq - c->sent_seq;
    c->r.duration_ns = now - c->r.start_ns;
    c->sent_seq = end_seq;
    c->dirty = true;
    return complete(number, now);
}
