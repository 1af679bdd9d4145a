/* Traffic that cannot be read as HTTP: bytes of connections that servers accepted, by listening port and program.
 * Part of request.bpf.c.
 *
 * Counted where a read finds no request on a connection without an earlier request. Sent bytes count only where bytes
 * were read: a server of HTTP has no entry. */
#pragma once

#include "probes/request/request_http.bpf.h"
#include "probes/request/request_recorder.bpf.h"

#define READS_PER_NOTE 64 /* on connections that are older than the agent, how often their address is noted */

/* Set before loading. */
const volatile bool counts_opaque = true;

volatile __u64 opaque_names[REQUEST_OPAQUE_MAX / 4][4] __attribute__((aligned(64)));
volatile struct request_opaque opaque_traffic[REQUEST_OPAQUE_MAX] __attribute__((aligned(64)));
volatile __u64 opaque_overflow_bytes = 0; /* found the table full */

static __always_inline __u32 network_namespace(struct sock *sk)
{
    if (!bpf_core_field_exists(sk->__sk_common.skc_net.net))
        return 0;
    return has_socket_cookies ? sk->__sk_common.skc_net.net->ns.inum
                              : BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
}

static __always_inline __u16 local_port(struct sock *sk)
{
    return has_socket_cookies ? sk->__sk_common.skc_num : BPF_CORE_READ(sk, __sk_common.skc_num);
}

static __always_inline void read_process_comm(__u64 ret[2])
{
    if (has_task_registers) {
        const struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
        ret[0] = *(const __u64 *)&leader->comm[0];
        ret[1] = *(const __u64 *)&leader->comm[8];
        return;
    }
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    struct task_struct *leader = BPF_CORE_READ(task, group_leader);
    if (bpf_core_read(ret, 16, &leader->comm) < 0)
        ret[0] = ret[1] = 0;
}

/* Not inlined, as current_process. */
__noinline __u64 process_comm_hash(void)
{
    __u64 comm[2];
    read_process_comm(comm);
    __u64 hash = comm[0] * 0x9e3779b97f4a7c15ULL;
    return ((hash ^ hash >> 32) + comm[1]) * 0xff51afd7ed558ccdULL;
}

/* Of port, namespace and process name, in 61 bits; not 0. */
static __always_inline __u64 opaque_name(struct sock *sk)
{
    __u64 hash = (process_comm_hash() ^ local_port(sk)) * 0x9e3779b97f4a7c15ULL;
    hash = ((hash ^ hash >> 32) + network_namespace(sk)) * 0xc4ceb9fe1a85ec53ULL;
    return hash >> 3 ?: 1;
}

static __always_inline __u32 opaque_find(__u64 name)
{
    __u32 set = name & (REQUEST_OPAQUE_MAX / 4 - 1), way = table_way4(opaque_names[set], name);
    return way == TABLE_NOT_FOUND ? TABLE_NOT_FOUND : set * 4 + way;
}

/* Returns the place that a thread chose that is making this entry, and has not published its name yet. */
static __always_inline __u32 opaque_claimed_place(__u32 set, __u64 name)
{
    __u64 claim = REQUEST_CLAIM_OPAQUE_NAME | name;
    const __u8 *way = bpf_map_lookup_elem(&claims, &claim);
    return way ? set * 4 + (*way & 3) : TABLE_NOT_FOUND;
}

/* Returns the place of a new entry, or of one that another thread makes at the same time; TABLE_NOT_FOUND: no place is
 * free. Bytes may be added to the entry before its name is published. */
__noinline __u32 opaque_make(__u64 name, __u16 port)
{
    __u32 set = name & (REQUEST_OPAQUE_MAX / 4 - 1);
    __u64 comm[2];
    for (__u32 way = 0; way < 4; way++) {
        __u32 place = set * 4 + way;
        if (opaque_names[set][way] || !table_claim(REQUEST_CLAIM_OPAQUE | place))
            continue;
        if (!table_claim_with(REQUEST_CLAIM_OPAQUE_NAME | name, way)) {
            table_release(REQUEST_CLAIM_OPAQUE | place);
            break;
        }
        read_process_comm(comm);
        opaque_traffic[place].port = port;
        *(volatile __u64 *)&opaque_traffic[place].comm[0] = comm[0];
        *(volatile __u64 *)&opaque_traffic[place].comm[8] = comm[1];
        opaque_names[set][way] = name;
        return place;
    }
    return opaque_claimed_place(set, name);
}

static __always_inline bool is_tls_record(__u64 head, __u32 known)
{
    __u8 type = head, minor = head >> 16;
    return known >= 3 && type >= 20 && type <= 23 && (__u8)(head >> 8) == 3 && minor <= 4;
}

/* `bytes` were just read: are they the first of the connection? The end of a stream counts as one more. */
static __always_inline bool is_first_read(struct sock *sk, __u32 bytes)
{
    __u64 received;
    __u32 unread;
    if (has_socket_cookies) {
        const struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
        if (!tcp)
            return false;
        received = tcp->bytes_received;
        unread = tcp->rcv_nxt - tcp->copied_seq;
    } else {
        struct tcp_sock *tcp = (struct tcp_sock *)sk;
        if (BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
            return false;
        received = BPF_CORE_READ(tcp, bytes_received);
        unread = BPF_CORE_READ(tcp, rcv_nxt) - BPF_CORE_READ(tcp, copied_seq);
    }
    return received <= (__u64)bytes + unread;
}

/* The first `known` bytes of those that were read are in `head`. */
static __always_inline void opaque_received(struct sock *sk, __u64 head, __u32 known, __u32 bytes, __u32 pid)
{
    if (!counts_opaque || pid == skip_pid || !is_accepted(sk))
        return;
    __u64 name = opaque_name(sk);
    __u32 place = opaque_find(name);
    if (place == TABLE_NOT_FOUND)
        place = opaque_make(name, local_port(sk));
    if (place == TABLE_NOT_FOUND) {
        __sync_fetch_and_add(&opaque_overflow_bytes, bytes);
        return;
    }
    volatile struct request_opaque *o = &opaque_traffic[table_index(place, REQUEST_OPAQUE_MAX - 1)];
    __sync_fetch_and_add(&o->received, bytes);
    __sync_fetch_and_add(&o->reads, 1);
    const bool is_first = is_first_read(sk, bytes);
    if (is_first || o->reads % READS_PER_NOTE == 0)
        service_address_note(number_of(sk));
    if (is_tls_record(head, known))
        __sync_fetch_and_add(&o->tls_reads, 1);
    if (is_first)
        __sync_fetch_and_add(&o->connections, 1);
    o->pid = pid;
}

static __always_inline void opaque_sent(struct sock *sk, __u32 bytes)
{
    if (!counts_opaque || !is_accepted(sk))
        return;
    __u32 place = opaque_find(opaque_name(sk));
    if (place != TABLE_NOT_FOUND)
        __sync_fetch_and_add(&opaque_traffic[table_index(place, REQUEST_OPAQUE_MAX - 1)].sent, bytes);
}
