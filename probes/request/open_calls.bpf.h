/* Calls of other services that have no reply yet, and the counters of those that had one (service_call.h). Part of
 * request.bpf.c. */
#pragma once

#include "probes/recorder/client_call.h"
#include "probes/request/request_state.bpf.h"
#include "probes/request/service_call.h"

#define SOCKET_SIZE_BITS 11 /* at least: between the addresses of sockets */
#define REPLY_HEAD_BYTES 16

/* At most one a socket. */
struct open_call {
    __u64 socket;
    __u64 start_ns; /* 0: the socket has none */
    struct service_address server;
    __u32 call;
    bool is_tls; /* its reply is read by an SSL object: what the socket receives may be no reply */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, SERVICE_CALL_OPEN_MAX);
    __type(key, __u32);
    __type(value, struct open_call);
} open_calls SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, SERVICE_CALL_KEYS_MAX);
    __type(key, struct service_call_key);
    __type(value, struct service_call_counts);
} service_calls SEC(".maps");

volatile __u64 service_calls_missed = 0; /* found no place in one of these */

static const struct service_call_counts no_service_calls = {};

/* The place of a socket: cookies are consecutive. Another socket may have it. */
static __always_inline struct open_call *open_call_place(__u64 socket)
{
    const __u32 place = (has_socket_cookies ? socket : socket >> SOCKET_SIZE_BITS) & (SERVICE_CALL_OPEN_MAX - 1);
    return bpf_map_lookup_elem(&open_calls, &place);
}

/* The open call of the socket; NULL: it has none. */
static __always_inline struct open_call *open_call_find(__u64 socket)
{
    struct open_call *o = open_call_place(socket);
    return o && o->socket == socket && o->start_ns ? o : NULL;
}

/* PostgreSQL: an error, behind messages without contents: of the statement's parsing, of its parameters, of no row. */
static __always_inline bool postgresql_has_failed(const char head[REPLY_HEAD_BYTES])
{
#pragma unroll
    for (int i = 0; i + 5 <= REPLY_HEAD_BYTES; i += 5) {
        if (head[i] == 'E')
            return true;
        if ((head[i] != '1' && head[i] != '2' && head[i] != 'n') || head[i + 4] != 4)
            return false;
    }
    return head[REPLY_HEAD_BYTES - 1] == 'E';
}

static __always_inline bool reply_has_failed(const char head[REPLY_HEAD_BYTES], int protocol)
{
    switch (protocol) {
    case CLIENT_HTTP:
        return head[9] == '5' && head[8] == ' ';
    case CLIENT_POSTGRESQL:
        return postgresql_has_failed(head);
    case CLIENT_MYSQL:
        return (__u8)head[4] == 0xff;
    case CLIENT_REDIS:
        return head[0] == '-';
    }
    return false;
}

/* 1 where `v` is not 0, without a branch: each would double the verifier's work. */
static __always_inline __u64 is_not_zero(__u64 v)
{
    __u64 negative = -v;
    asm volatile("" : "+r"(negative)); /* the compiler would make a branch of it */
    return (v | negative) >> 63;
}

static __always_inline __u32 service_call_bucket(__u64 ns)
{
    __u64 bits = 0;
    ns >>= 14;
    if (ns < 4)
        return 0;
    for (__u32 half = 32; half; half /= 2)
        bits += half * is_not_zero(ns >> bits >> half);
    const __u64 bucket = 4 * (bits - 2) + (ns >> (bits - 2) & 3) + 1;
    return at_most(bucket, SERVICE_CALL_BUCKETS - 1);
}

/* The reply to an open call begins with `head`; `is_cut`: the connection ends without one. Not global, as programs at
 * uprobes call it (common/preemption.bpf.h). */
static __noinline int open_call_end(struct open_call *o, const char head[REPLY_HEAD_BYTES], bool is_cut, __u64 now)
{
    struct service_call_key key = {};
    key.process = current_process_inline(bpf_get_current_pid_tgid() >> 32);
    key.server = o->server;
    key.call = o->call;
    const __u64 wait_ns = now - o->start_ns;
    o->start_ns = 0;
    struct service_call_counts *counts = bpf_map_lookup_elem(&service_calls, &key);
    if (!counts) {
        bpf_map_update_elem(&service_calls, &key, &no_service_calls, BPF_NOEXIST);
        counts = bpf_map_lookup_elem(&service_calls, &key);
    }
    if (!counts) {
        __sync_fetch_and_add(&service_calls_missed, 1);
        return 0;
    }
    __sync_fetch_and_add(&counts->wait_ns, wait_ns);
    __sync_fetch_and_add(&counts->buckets[at_most(service_call_bucket(wait_ns), SERVICE_CALL_BUCKETS - 1)], 1);
    if (is_cut || reply_has_failed(head, client_call_protocol(key.call)))
        __sync_fetch_and_add(&counts->failed, 1);
    return 0;
}
