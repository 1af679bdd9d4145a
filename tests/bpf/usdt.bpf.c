/* A consumer based on libbpf: reads every argument of the probe it is attached to. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/usdt.bpf.h>

#include "usdt.h"

char LICENSE[] SEC("license") = "GPL";

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct usdt_firing);
} firings SEC(".maps");

SEC("usdt")
int fired(struct pt_regs *ctx)
{
    __u32 zero = 0;
    struct usdt_firing *firing = bpf_map_lookup_elem(&firings, &zero);
    if (!firing)
        return 0;
    firing->process = bpf_get_current_pid_tgid() >> 32;
    firing->argument_count = (__u64)bpf_usdt_arg_cnt(ctx);
    for (int i = 0; i < USDT_ARGUMENTS; i++) {
        long value = 0;
        firing->values[i] = bpf_usdt_arg(ctx, (__u64)i, &value) == 0 ? (__u64)value : 0;
    }
    __sync_fetch_and_add(&firing->count, 1);
    return 0;
}
