/* Sent bytes: a reply, or more of one. Part of request.bpf.c. */
#pragma once

#include "probes/request/tls_send.bpf.h"

/* `sk` is NULL where a descriptor was closed before the send on it was over. `c`: its connection; NULL: none. `now`: 0:
 * not known yet. */
static __always_inline void sent(struct sock *sk, struct request_connection *c, __s32 bytes,
                                 const struct request_syscall *known, __u64 now)
{
    struct request_syscall call_made;
    if (asleep || bytes <= 0 || tls_take_send(sk, c, bytes, known, &call_made, now))
        return;
    if (!c && sk)
        opaque_sent(sk, bytes);
    if (!c && !unfinished_until_ns)
        return;
    const struct request_syscall *call = syscall_known(known, &call_made);
    if (c && c->is_http2) {
        http2_send(c, sk, bytes, now);
        return;
    }
    if (!c)
        c = unfinished_of(sk, bytes, call);
    if (!c || !c->active || (c->replied && c->r.status == 101)) /* after it, another protocol */
        return;
    now = now ?: bpf_ktime_get_ns();
    __u64 held = connection_hold(c, now);
    c->sent_seq += bytes;
    stream_take_send(c, call->argument[1], (__u64)call->number << 32 | (__u32)call->argument[2], bytes, now);
    const struct request_text text = text_of_call(call, bytes);
    if (c->replied && is_next_reply(&text)) {
        publish(c->number, now, true);
        begin_pipelined(c, current_pid_tgid());
    }
    if (take_reply(c, &text, bytes, current_pid_tgid(), now))
        complete(c->number, now);
    else
        publish_first_token(c, now);
    connection_release(held);
}
