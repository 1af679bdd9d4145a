/* Writes what arrives at sockets, is sent and received to the flight recorder: here, because these programs are at
 * those hooks anyway. Part of request.bpf.c. */
#pragma once

#include "probes/common/run_timer.bpf.h"
#include "probes/recorder/recorder_context.bpf.h"
#include "probes/recorder/recorder_program.bpf.h"
#include "probes/recorder/recorder_socket.bpf.h"
#include "probes/request/request_state.bpf.h"

#define IPPROTO_TCP 6
#define SOCK_STREAM 1

/* Set before loading: the flight recorder's maps exist. */
const volatile bool has_recorder = false;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, REQUEST_PEERS_MAX);
    __type(key, __u32);
    __type(value, struct request_peer);
} peers SEC(".maps");

/* `sk` is TCP's. */
static __always_inline void keep_peer(struct sock *sk, __u64 cookie)
{
    __u32 place = cookie & (REQUEST_PEERS_MAX - 1);
    struct request_peer *peer = bpf_map_lookup_elem(&peers, &place);
    if (!peer || peer->socket == cookie)
        return;
    peer->socket = 0;
    peer->family = sk->__sk_common.skc_family;
    peer->port = bpf_ntohs(sk->__sk_common.skc_dport);
    __builtin_memset(peer->address, 0, sizeof(peer->address));
    if (peer->family == AF_INET6)
        *(struct in6_addr *)peer->address = sk->__sk_common.skc_v6_daddr;
    else
        *(__be32 *)peer->address = sk->__sk_common.skc_daddr;
    peer->socket = cookie;
}

/* As recorder_set_socket, where the socket's fields cannot be read directly and programs have no cookies. */
static __always_inline void set_socket_by_name(struct recorder_record *r, struct sock *sk, __u8 kind, __u32 bytes)
{
    r->kind = kind;
    r->syscall = RECORDER_NO_SYSCALL;
    r->object = socket_name(sk);
    r->value = bytes;
    __u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
    if (family == AF_UNIX) {
        r->flags |= RECORDER_UNIX;
    } else if ((family == AF_INET || family == AF_INET6) && BPF_CORE_READ(sk, sk_type) == SOCK_STREAM &&
               BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP) {
        const struct tcp_sock *tcp = (const struct tcp_sock *)sk;
        __u32 sequence = kind == RECORDER_SEND ? BPF_CORE_READ(tcp, write_seq) : BPF_CORE_READ(tcp, copied_seq);
        r->flags |= RECORDER_TCP;
        r->value |= (__u64)sequence << 32;
    }
}

/* `kind`: RECORDER_SEND or RECORDER_RECEIVE; `is_served`: a request came in on it; `call`: what a send asks for, else
 * RECORDER_NO_SYSCALL. Returns the time; 0: nothing is recorded. A function, so that its record is not on the stack
 * while other functions run: 512 bytes are all that they and their callers have. */
static __noinline __u64 record_operation(struct sock *sk, __u8 kind, __s32 bytes, bool is_served, int call)
{
    if (!has_recorder || bytes < 0 || asleep)
        return 0;
    const struct recorder_place place = recorder_place();
    struct recorder_record r;
    if (!place.cpu)
        return 0;
    __u64 start_ns = timer_start(REQUEST_TIMER_RECORD);
    r.time_ns = bpf_ktime_get_ns();
    r.flags = 0;
    r.tid = bpf_get_current_pid_tgid();
    if (has_socket_cookies)
        recorder_set_socket(&r, sk, bpf_skc_to_tcp_sock(sk), kind, bytes);
    else
        set_socket_by_name(&r, sk, kind, bytes);
    r.syscall = call;
    if (r.flags & RECORDER_TCP && is_served)
        r.flags |= RECORDER_REQUESTS;
    else if (has_socket_cookies && kind == RECORDER_SEND && r.flags & RECORDER_TCP)
        keep_peer(sk, r.object);
    recorder_put_object(&place, &r);
    timer_stop(REQUEST_TIMER_RECORD, start_ns);
    return r.time_ns;
}

/* `value`, of which the verifier knows nothing from here on: that of 5.10 takes a constant of one path, as the 0 of
 * record_operation, for the value in all of them, and removes what is done in the others. */
__noinline __u64 any_value(__u64 value)
{
    asm volatile("" : "+r"(value)); /* else the compiler sees that the result is the argument */
    return value;
}

/* The same, with the task that the current thread runs. Inlined, so that reading the task is not called by the function
 * that has the record. */
static __always_inline __u64 record_socket(struct sock *sk, __u8 kind, __s32 bytes, bool is_served, int call)
{
    __u64 now = record_operation(sk, kind, bytes, is_served, call);
    if (!has_socket_cookies)
        now = any_value(now);
    if (has_tasks && now)
        record_program(now, RECORDER_AT_SOCKET, 0);
    if (has_tasks && now && !has_socket_cookies && kind == RECORDER_SEND &&
        BPF_CORE_READ(sk, __sk_common.skc_family) == AF_UNIX)
        record_program(now, RECORDER_AT_MESSAGE, 0); /* its arrival is not seen */
    return now;
}

/* Bytes have arrived. */
static __always_inline void record_ready(struct sock *sk, const struct tcp_sock *tcp, __u64 now)
{
    const struct recorder_place place = recorder_place();
    struct recorder_record r;
    if (!place.cpu)
        return;
    r.time_ns = now;
    r.flags = tcp ? RECORDER_IN_SOFTIRQ : recorder_context(true);
    r.tid = bpf_get_current_pid_tgid();
    recorder_set_socket(&r, sk, tcp, RECORDER_READY, 0);
    if (has_tasks && r.flags == RECORDER_UNIX) /* in no interrupt */
        record_program(now, RECORDER_AT_MESSAGE, 0);
    recorder_put_object(&place, &r);
}

static __always_inline void record_retransmission(struct sock *sk)
{
    const struct recorder_place place = recorder_place();
    struct recorder_record r = {.time_ns = bpf_ktime_get_ns()};
    if (!place.cpu)
        return;
    recorder_set_socket(&r, sk, bpf_skc_to_tcp_sock(sk), RECORDER_RETRANSMIT, 0);
    recorder_put_object(&place, &r);
}
