/* Records of a socket: bytes sent, received or arrived. `sk` is trusted by the verifier. */
#pragma once

#include "probes/common/task.bpf.h"
#include "probes/recorder/recorder.bpf.h"

/* Of TCP's sequence numbers, the one that this kind of record has. */
static __always_inline __u32 recorder_sequence(const struct tcp_sock *tcp, __u8 kind)
{
    return kind == RECORDER_SEND ? tcp->write_seq : kind == RECORDER_RECEIVE ? tcp->copied_seq : tcp->rcv_nxt;
}

/* Requesting it makes it the first time; from then on its field has it, and no helper is called. */
static __always_inline __u64 recorder_cookie(struct sock *sk)
{
    return sk->__sk_common.skc_cookie.counter ?: bpf_get_socket_cookie(sk);
}

/* All but the time and the thread. `tcp`: bpf_skc_to_tcp_sock(sk). */
static __always_inline void recorder_set_socket(struct recorder_record *r, struct sock *sk, const struct tcp_sock *tcp,
                                                __u8 kind, __u32 bytes)
{
    r->kind = kind;
    r->syscall = RECORDER_NO_SYSCALL;
    r->object = recorder_cookie(sk);
    r->value = bytes;
    if (tcp) {
        r->flags |= RECORDER_TCP;
        r->value |= (__u64)recorder_sequence(tcp, kind) << 32;
    } else if (sk->__sk_common.skc_family == AF_UNIX) {
        r->flags |= RECORDER_UNIX;
    }
}
