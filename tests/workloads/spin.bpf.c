/* A BPF program that spends its time in two of its lines, which test_record.py finds by their comments. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("socket") int spin(struct __sk_buff *skb)
{
    volatile unsigned sum = 0;
    for (int i = 0; i < 4000; i++) /* busy */
        sum += i * 7;              /* busy */
    return sum & skb->len & 0;
}

char _license[] SEC("license") = "GPL";
