/* Counts the calls that servers make of other services (service_call.h). Part of request.bpf.c. */
#pragma once

#include "probes/request/client_calls.bpf.h"
#include "probes/request/http2.bpf.h"
#include "probes/request/service_addresses.bpf.h"

#define SOCKET_SIZE_BITS 11 /* at least: between the addresses of sockets */
#define REPLY_HEAD_BYTES 16

/* A call without a reply yet; at most one a socket. */
struct open_call {
    __u64 socket;
    __u64 start_ns; /* 0: the socket has none */
    struct service_address server;
    __u32 call;
    bool is_tls; /* its reply is ciphertext */
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

volatile __u64 service_calls_missed = 0; /* not counted: `service_calls` was full, or another socket had the call's
                                            place in `open_calls` */

static const struct service_call_counts no_service_calls = {};

/* The place of a socket: cookies are consecutive. Another socket may have it. */
static __always_inline struct open_call *open_call_place(__u64 socket)
{
    const __u32 place = (has_socket_cookies ? socket : socket >> SOCKET_SIZE_BITS) & (SERVICE_CALL_OPEN_MAX - 1);
    return bpf_map_lookup_elem(&open_calls, &place);
}

/* The socket at `address`, which is called `socket`, has sent a call. A function, so that its stack is not added to
 * that of its callers' other functions; with numbers as arguments, so that it is verified once. */
__noinline int service_call_begin(__u64 address, __u64 socket, int call, __u64 now)
{
    const struct sock *sk = (const struct sock *)address;
    struct open_call *o = open_call_place(socket);
    const struct client_text *text = client_text_get();
    if (!o || !text || BPF_CORE_READ(sk, sk_type) != SOCK_STREAM || (o->start_ns && o->socket == socket))
        return 0;
    if (o->start_ns) /* of another socket, perhaps one that has been closed */
        __sync_fetch_and_add(&service_calls_missed, 1);
    o->socket = socket;
    o->call = call;
    o->is_tls = text->is_tls;
    if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_UNIX) {
        __builtin_memset(&o->server, 0, sizeof(o->server));
        *(__u32 *)o->server.address = BPF_CORE_READ(sk, sk_peer_pid, numbers[0].nr);
    } else {
        service_address_set(&o->server, sk, false);
    }
    o->start_ns = now;
    return 0;
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

/* The first bytes of the reply that the current thread has just received, as far as it can be read. */
static __always_inline void read_reply_head(char head[REPLY_HEAD_BYTES], __u32 bytes)
{
    struct request_syscall call;
    __u32 size;
    syscall_current(&call);
    const void *at = syscall_buffer(&call, &size);
    const __u64 n = at_most(bytes < size ? bytes : size, REPLY_HEAD_BYTES);
    if (at && n)
        bpf_probe_read_user(head, n, at);
}

__noinline __u32 service_call_bucket(__u64 ns)
{
    __u32 bits = 0;
    ns >>= 14;
    if (ns < 4)
        return 0;
    for (__u32 half = 32; half; half /= 2)
        if (ns >> bits >> half)
            bits += half;
    const __u32 bucket = 4 * (bits - 2) + (ns >> (bits - 2) & 3) + 1;
    return bucket < SERVICE_CALL_BUCKETS ? bucket : SERVICE_CALL_BUCKETS - 1;
}

/* The current thread has received the reply to the open call of `socket`; `bytes` is 0 at the end of the connection. */
__noinline int service_call_end(__u64 socket, __u32 bytes, __u64 now)
{
    struct open_call *o = open_call_place(socket);
    struct service_call_key key = {};
    char head[REPLY_HEAD_BYTES] = {};
    if (!o)
        return 0;
    key.process = current_process(bpf_get_current_pid_tgid() >> 32);
    key.server = o->server;
    key.call = o->call;
    const __u64 wait_ns = now - o->start_ns;
    o->start_ns = 0;
    if (bytes && !o->is_tls)
        read_reply_head(head, bytes);
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
    if (!bytes || reply_has_failed(head, client_call_protocol(o->call)))
        __sync_fetch_and_add(&counts->failed, 1);
    return 0;
}

/* The current thread has received `bytes` on a socket that has no incoming requests. */
static __always_inline void service_call_received(struct sock *sk, __u32 bytes, __u64 now)
{
    if (!now || !is_server(bpf_get_current_pid_tgid() >> 32))
        return;
    const __u64 socket = socket_name(sk);
    const struct open_call *o = open_call_place(socket);
    if (o && o->socket == socket && o->start_ns)
        service_call_end(socket, bytes, now);
}

/* The current thread has sent `bytes` on the socket of connection `*c` (NULL: it has none), which may be made by that.
 * Returns the time; 0: nothing is recorded. */
static __always_inline __u64 record_send(struct sock *sk, __s32 bytes, struct request_connection **c)
{
    const int asked = client_call_sent(sk, bytes, *c),
              call = asked == CLIENT_BEGINS_HTTP2 ? RECORDER_NO_SYSCALL : asked;
    const __u64 now = record_socket(sk, RECORDER_SEND, bytes, is_served(*c), call);
    if (now && call != RECORDER_NO_SYSCALL)
        service_call_begin(number_of(sk), socket_name(sk), call, now);
    if (asked == CLIENT_BEGINS_HTTP2)
        *c = http2_open_client(sk, bytes);
    return now;
}
