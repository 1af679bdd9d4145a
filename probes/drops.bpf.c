/* What the network of this node loses: packets that the kernel drops, by its reason; segments that TCP sends again, by
 * cause and by peer; resets. Only counts: user space reads the tables every few seconds. An iterator lists the
 * listening sockets with the connections that each has refused: no tracepoint is passed when a full accept queue
 * refuses one.
 *
 * Losses: runs that the kernel skips because the program is already running on that CPU. When a table is full, further
 * keys count for DROPS_OTHER. */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#include "probes/common/cgroup.bpf.h"
#include "probes/common/run_timer.bpf.h"
#include "probes/common/task.bpf.h"
#include "probes/drops.h"

char LICENSE[] SEC("license") = "GPL";

#define TCP_SYN_SENT     2
#define TCP_TIME_WAIT    6
#define TCP_LISTEN       10
#define TCP_NEW_SYN_RECV 12
#define TCP_CA_RECOVERY  3
#define TCP_CA_LOSS      4
#define LOSS_PROBE_TIMER 5 /* ICSK_TIME_LOSS_PROBE */
#define IPPROTO_TCP      6

/* Set before loading. */
const volatile bool passes_socket = false; /* kfree_skb passes the receiving socket (6.11 and later) */
const volatile __u8 reason_classes[DROPS_REASONS] = {};
const volatile __u16 first_ephemeral_port = 32768, last_ephemeral_port = 60999;

volatile __u32 enabled = 0;

/* Of DROPS_OTHER, and of expected packets, without cgroup. */
__u64 other_counters[DROPS_COUNTERS] = {};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, DROPS_MAX_COUNTERS);
    __type(key, struct drops_key);
    __type(value, __u64);
} counters SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, DROPS_MAX_PEERS + 1);
    __type(key, struct drops_peer);
    __type(value, struct drops_peer_count);
} peers SEC(".maps");

static __always_inline void count_other(__u32 counter, __u64 count)
{
    if (counter < DROPS_COUNTERS)
        __sync_fetch_and_add(&other_counters[counter], count);
}

static __noinline void count_for(__u64 cgroup, __u32 counter, __u64 count)
{
    const struct drops_key key = {.cgroup_id = cgroup, .counter = counter};
    const __u64 zero = 0;
    __u64 *sum = bpf_map_lookup_elem(&counters, &key);

    if (!sum) {
        bpf_map_update_elem(&counters, &key, &zero, BPF_NOEXIST);
        sum = bpf_map_lookup_elem(&counters, &key);
    }
    if (sum)
        __sync_fetch_and_add(sum, count);
    else
        count_other(counter, count);
}

/* Of cgroup v2. A socket of a handshake or in TIME_WAIT has none. */
static __always_inline __u64 cgroup_of_socket(const struct sock *sk)
{
    __u64 data = 0;

    if (!sk || bpf_core_type_size(struct sock_cgroup_data) < sizeof(data))
        return DROPS_NO_SOCKET;
    unsigned char state = BPF_CORE_READ(sk, __sk_common.skc_state);
    if (state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV)
        return DROPS_NO_SOCKET;
    bpf_probe_read_kernel(&data, sizeof(data), &sk->sk_cgrp_data);
    struct cgroup *cgroup = (struct cgroup *)(data & ~3ULL);
    return cgroup && !(data & 1) ? cgroup_id(cgroup) : DROPS_NO_SOCKET;
}

/* ---- dropped packets ---- */

SEC("raw_tp/kfree_skb")
int drops_packet(__u64 *arguments)
{
    if (!enabled)
        return 0;
    __u64 start_ns = timer_start(DROPS_TIMER_PACKET);
    const struct sk_buff *skb = (const void *)arguments[0];
    __u32 reason = arguments[2];
    if (reason >= DROPS_REASONS)
        reason = DROPS_REASONS - 1;
    if (reason_classes[reason] == DROPS_EXPECTED) {
        count_other(reason, 1);
    } else {
        const struct sock *sk = passes_socket ? (const void *)arguments[3] : NULL;
        count_for(cgroup_of_socket(sk ?: BPF_CORE_READ(skb, sk)), reason, 1);
    }
    timer_stop(DROPS_TIMER_PACKET, start_ns);
    return 0;
}

/* ---- TCP ---- */

/* Finds the cause by the state of the connection when the kernel retransmits: the timer that expired is then stopped,
 * except for the loss probe. */
static __always_inline __u32 retransmission_kind(const struct sock *sk)
{
    const struct inet_connection_sock *connection = (const void *)sk;
    __u8 state = BPF_CORE_READ_BITFIELD_PROBED(connection, icsk_ca_state);
    __u8 timer = BPF_CORE_READ(connection, icsk_pending);

    if (BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_SYN_SENT)
        return DROPS_SYN;
    if (state == TCP_CA_LOSS)
        return timer ? DROPS_SLOW_START : DROPS_TIMEOUT;
    return timer == LOSS_PROBE_TIMER && state < TCP_CA_RECOVERY ? DROPS_LOSS_PROBE : DROPS_FAST;
}

static __always_inline void set_peer(struct drops_peer *peer, const struct sock *sk)
{
    __u16 local = BPF_CORE_READ(sk, __sk_common.skc_num);
    struct in6_addr address = BPF_CORE_READ(sk, __sk_common.skc_v6_daddr);
    const __u32 *words = (const __u32 *)&address;
    __u32 v4 = BPF_CORE_READ(sk, __sk_common.skc_daddr);

    peer->family = BPF_CORE_READ(sk, __sk_common.skc_family);
    if (local >= first_ephemeral_port && local <= last_ephemeral_port)
        peer->port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    if (peer->family == AF_INET6 && !words[0] && !words[1] && words[2] == bpf_htonl(0xffff)) {
        peer->family = AF_INET;
        v4 = words[3];
    }
    if (peer->family == AF_INET)
        __builtin_memcpy(peer->address, &v4, sizeof(v4));
    else
        __builtin_memcpy(peer->address, &address, sizeof(address));
}

static __always_inline void count_peer(const struct sock *sk, __u64 segments)
{
    struct drops_peer peer = {}, other = {};
    /* User space deletes idle peers: a new one must not look as if it was idle since the boot. */
    struct drops_peer_count first = {.last_ns = bpf_ktime_get_ns()};

    set_peer(&peer, sk);
    struct drops_peer_count *c = bpf_map_lookup_elem(&peers, &peer);
    if (!c) {
        bpf_map_update_elem(&peers, &peer, &first, BPF_NOEXIST);
        c = bpf_map_lookup_elem(&peers, &peer) ?: bpf_map_lookup_elem(&peers, &other);
    }
    if (!c)
        return;
    __sync_fetch_and_add(&c->segments, segments);
    c->last_ns = first.last_ns;
}

SEC("raw_tp/tcp_retransmit_skb")
int drops_retransmission(__u64 *arguments)
{
    const struct sock *sk = (const void *)arguments[0];
    const struct sk_buff *skb = (const void *)arguments[1];
    if (!enabled)
        return 0;
    __u64 start_ns = timer_start(DROPS_TIMER_RETRANSMISSION);
    const struct tcp_skb_cb *tcp = (const void *)skb->cb;
    __u64 segments = BPF_CORE_READ(tcp, tcp_gso_segs) ?: 1;
    count_for(cgroup_of_socket(sk), retransmission_kind(sk), segments);
    count_peer(sk, segments);
    timer_stop(DROPS_TIMER_RETRANSMISSION, start_ns);
    return 0;
}

/* A struct request_sock begins with the same part as a socket. */
SEC("raw_tp/tcp_retransmit_synack")
int drops_syn_ack(__u64 *arguments)
{
    if (!enabled)
        return 0;
    __u64 start_ns = timer_start(DROPS_TIMER_RETRANSMISSION);
    count_for(cgroup_of_socket((const void *)arguments[0]), DROPS_SYN_ACK, 1);
    count_peer((const void *)arguments[1], 1);
    timer_stop(DROPS_TIMER_RETRANSMISSION, start_ns);
    return 0;
}

static __always_inline int count_reset(const struct sock *sk, __u32 counter)
{
    if (!enabled)
        return 0;
    __u64 start_ns = timer_start(DROPS_TIMER_RESET);
    count_for(cgroup_of_socket(sk), counter, 1);
    timer_stop(DROPS_TIMER_RESET, start_ns);
    return 0;
}

SEC("raw_tp/tcp_send_reset")
int drops_reset_sent(__u64 *arguments)
{
    return count_reset((const void *)arguments[0], DROPS_RESET_SENT);
}

SEC("raw_tp/tcp_receive_reset")
int drops_reset_received(__u64 *arguments)
{
    return count_reset((const void *)arguments[0], DROPS_RESET_RECEIVED);
}

/* ---- listening sockets ---- */

SEC("iter/task_file")
int drops_listeners(struct bpf_iter__task_file *ctx)
{
    struct task_struct *task = ctx->task;
    struct file *file = ctx->file;
    struct drops_listener l = {};

    if (!task || !file)
        return 0;
    const struct sock *sk = file_socket(file);
    if (!sk || BPF_CORE_READ(sk, __sk_common.skc_state) != TCP_LISTEN)
        return 0;
    __u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
    if ((family != AF_INET && family != AF_INET6) || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
        return 0;
    l.socket = (__u64)sk;
    l.cgroup_id = cgroup_of_socket(sk);
    l.pid = task->tgid;
    l.port = BPF_CORE_READ(sk, __sk_common.skc_num);
    l.drops = BPF_CORE_READ(sk, sk_drops.counter);
    l.backlog = BPF_CORE_READ(sk, sk_ack_backlog);
    l.backlog_max = BPF_CORE_READ(sk, sk_max_ack_backlog);
    BPF_CORE_READ_STR_INTO(&l.comm, task, comm);
    bpf_seq_write(ctx->meta->seq, &l, sizeof(l));
    return 0;
}
