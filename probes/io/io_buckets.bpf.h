/* The buckets of histograms, and the counters of losses. Part of io.bpf.c. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/io.h"

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct io_stats);
} stats SEC(".maps");

static __always_inline struct io_stats *stats_get(void)
{
    const __u32 zero = 0;
    return bpf_map_lookup_elem(&stats, &zero);
}

/* How many bits the value has. */
static __always_inline __u32 bits_of(__u64 value)
{
    __u32 bits = 0;
    for (__u32 half = 32; half; half /= 2) {
        if (value >> half) {
            bits += half;
            value >>= half;
        }
    }
    return bits + (value != 0);
}

/* Functions that the kernel checks once, not for each path to them. */
__weak __u32 duration_bucket(__u64 ns)
{
    __u32 bits = bits_of(ns ? ns - 1 : 0);
    if (bits <= IO_FIRST_BUCKET)
        return 0;
    return bits - IO_FIRST_BUCKET < IO_BUCKETS ? bits - IO_FIRST_BUCKET : IO_BUCKETS - 1;
}

__weak __u32 size_bucket(__u64 bytes)
{
    if (bytes <= 10240)
        return bytes <= 100 ? 0 : bytes <= 1024 ? 1 : 2;
    if (bytes <= 4194304)
        return bytes <= 102400 ? 3 : bytes <= 1048576 ? 4 : 5;
    if (bytes <= 104857600)
        return bytes <= 10485760 ? 6 : 7;
    return bytes <= 1073741824 ? 8 : 9;
}
