/* Which process serves an address of this node: noted where it reads on connections that it accepted. Part of
 * request.bpf.c. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/task.bpf.h"
#include "probes/request/service_call.h"

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, SERVICE_ADDRESSES_MAX);
    __type(key, struct service_address);
    __type(value, struct service_process);
} service_addresses SEC(".maps");

/* The same address in another network namespace is another one. */
static __always_inline bool is_loopback(const __u8 address[16])
{
    const __u64 *halves = (const __u64 *)address;
    const bool is_mapped = !halves[0] && *(const __u32 *)&address[8] == bpf_htonl(0xffff);
    return is_mapped ? address[12] == 127 : !halves[0] && halves[1] == bpf_cpu_to_be64(1);
}

/* One end of a connection of TCP. `sk` need not be trusted by the verifier. */
static __always_inline void service_address_set(struct service_address *a, const struct sock *sk, bool is_local)
{
    __builtin_memset(a, 0, sizeof(*a));
    if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET6) {
        if (is_local)
            BPF_CORE_READ_INTO((struct in6_addr *)a->address, sk, __sk_common.skc_v6_rcv_saddr);
        else
            BPF_CORE_READ_INTO((struct in6_addr *)a->address, sk, __sk_common.skc_v6_daddr);
    } else {
        a->address[10] = a->address[11] = 0xff;
        *(__be32 *)&a->address[12] =
            is_local ? BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr) : BPF_CORE_READ(sk, __sk_common.skc_daddr);
    }
    a->port = is_local ? BPF_CORE_READ(sk, __sk_common.skc_num) : bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    if (is_loopback(a->address) && bpf_core_field_exists(sk->__sk_common.skc_net.net))
        a->network = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
}

/* The current process reads on the accepted connection of the socket at `address`. */
__noinline int service_address_note(__u64 address)
{
    struct service_address server;
    struct service_process process = {};
    service_address_set(&server, (const struct sock *)address, true);
    process.pid = bpf_get_current_pid_tgid() >> 32;
    const struct service_process *known = bpf_map_lookup_elem(&service_addresses, &server);
    if (known && known->pid == process.pid)
        return 0;
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    struct task_struct *leader = BPF_CORE_READ(task, group_leader);
    bpf_core_read(process.comm, sizeof(process.comm), &leader->comm);
    bpf_map_update_elem(&service_addresses, &server, &process, BPF_ANY);
    return 0;
}
