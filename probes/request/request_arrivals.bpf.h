/* When the bytes arrived that a socket's program has not read yet: a request begins with its first byte. Part of
 * request.bpf.c.
 *
 * A table of sets of four, so that an arrival and a read each load one line of cache. Where it is not known when a byte
 * arrived (the table was full, the kernel has no tracepoint there), a request begins when it is read. */
#pragma once

#include "probes/recorder/recorder_socket.bpf.h"
#include "probes/request/request_state.bpf.h"

#define ARRIVALS_MAX   4096
#define ARRIVAL_OLD_NS 10000000000ULL /* its socket may be gone */
#define TCP_LISTEN     10

struct request_arrival {
    __u64 time_ns; /* of the first byte that was not read */
    __u32 socket;  /* the low half of its cookie; 0: the place is free */
    __u32 end_seq; /* TCP's rcv_nxt after it */
};

static volatile struct request_arrival arrivals[ARRIVALS_MAX / 4][4] __attribute__((aligned(64)));

static __always_inline volatile struct request_arrival *arrival_set(__u32 socket)
{
    return arrivals[socket * 0x9e3779b1U >> 22 & (ARRIVALS_MAX / 4 - 1)];
}

static __always_inline volatile struct request_arrival *arrival_find(__u32 socket)
{
    volatile struct request_arrival *set = arrival_set(socket);
    __u32 way = table_way_of4(set[0].socket, set[1].socket, set[2].socket, set[3].socket, socket);
    return way == TABLE_NOT_FOUND ? NULL : &set[table_index(way, 3)];
}

/* A place for another socket; NULL: all are taken. */
static __always_inline volatile struct request_arrival *arrival_make(__u32 socket, __u64 now)
{
    volatile struct request_arrival *set = arrival_set(socket);
    for (__u32 way = 0; way < 4; way++)
        if (!set[way].socket)
            return &set[way];
    for (__u32 way = 0; way < 4; way++)
        if (now > set[way].time_ns + ARRIVAL_OLD_NS)
            return &set[way];
    return NULL;
}

/* Bytes have arrived. */
static __always_inline void arrived(struct sock *sk, const struct tcp_sock *tcp, __u64 now)
{
    if (sk->__sk_common.skc_state == TCP_LISTEN)
        return;
    __u32 socket = recorder_cookie(sk), end_seq = tcp->rcv_nxt;
    volatile struct request_arrival *a = arrival_find(socket);
    if (a && (__s32)(a->end_seq - tcp->copied_seq) > 0) /* an earlier byte is still there */
        return;
    if (!a)
        a = arrival_make(socket, now);
    if (!a) {
        lose(REQUEST_LOSS_MAP_FULL);
        return;
    }
    a->time_ns = now;
    a->end_seq = end_seq;
    a->socket = socket;
}

/* `bytes` were just read: when the first of them arrived; 0: not known. */
static __always_inline __u64 arrival_of_read(struct sock *sk, __u32 bytes)
{
    const struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
    __u32 socket = sk->__sk_common.skc_cookie.counter;
    volatile struct request_arrival *a = tcp && socket ? arrival_find(socket) : NULL;
    if (!a)
        return 0;
    __u64 time_ns = (__s32)(a->end_seq - (tcp->copied_seq - bytes)) > 0 ? a->time_ns : 0;
    if (tcp->copied_seq == tcp->rcv_nxt)
        a->socket = 0;
    return time_ns;
}
