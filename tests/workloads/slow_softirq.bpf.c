/* A socket filter that accepts all packets, and takes `spin_ns` for each: sockets are filtered in softirq NET_RX. It
 * calls itself when its loop, which the verifier follows, has ended too early; 33 times at most. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define ROUNDS 4096 /* the verifier follows no more than 8192 branches at a time */

const volatile __u64 spin_ns = 3000000;

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} itself SEC(".maps");

SEC("socket")
int slow(struct __sk_buff *skb)
{
    __u64 now = bpf_ktime_get_ns();
    if (!skb->cb[0]) {
        skb->cb[0] = 1;
        skb->cb[1] = now;
        skb->cb[2] = now >> 32;
    }
    __u64 end = ((__u64)skb->cb[2] << 32 | skb->cb[1]) + spin_ns;
    for (int i = 0; i < ROUNDS; i++) {
        bpf_ktime_get_ns(); /* for time to pass */
        bpf_ktime_get_ns();
        bpf_ktime_get_ns();
        if (bpf_ktime_get_ns() >= end)
            return 0x7fffffff;
    }
    bpf_tail_call(skb, &itself, 0);
    return 0x7fffffff;
}

char _license[] SEC("license") = "GPL";
