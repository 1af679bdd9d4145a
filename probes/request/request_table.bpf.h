/* Tables for lookups at every event: arrays of sets, where the names of a set's entries share one cache line. A lookup
 * costs a few loads and no call; most events find that a socket is not in a table, which must cost nearly nothing.
 *
 * Names are numbers of 63 bits, not 0. Taking and freeing a place is rare and goes through a hash table, which lets
 * only one of several contenders win. Part of request.bpf.c. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/request.h"

#define TABLE_NOT_FOUND 0xffffffffU

/* Of places, by REQUEST_CLAIM_* and index; and of names, so that one is never in a table twice. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries,
           2 * (REQUEST_CONNECTIONS_MAX + REQUEST_PROCESSES_MAX + REQUEST_OPAQUE_MAX) + REQUEST_CONNECTIONS_MAX);
    __type(key, __u64);
    __type(value, __u8);
} claims SEC(".maps");

volatile __u64 connection_names[REQUEST_CONNECTIONS_MAX / 8][8] __attribute__((aligned(64)));
volatile __u64 process_names[REQUEST_PROCESSES_MAX / 4][4] __attribute__((aligned(64)));

/* 1 where `a` equals `b`, without a branch: each would double what the verifier has to look at. */
static __always_inline __u64 table_same(__u64 a, __u64 b)
{
    return ((a ^ b) - 1) >> 63;
}

static __always_inline __u32 table_way_of4(__u64 name0, __u64 name1, __u64 name2, __u64 name3, __u64 name)
{
    __u64 found = table_same(name0, name) | table_same(name1, name) << 1 | table_same(name2, name) << 2 |
                  table_same(name3, name) << 3;
    return found ? (found >> 1) - (found >> 3) : TABLE_NOT_FOUND;
}

static __always_inline __u32 table_way4(volatile __u64 *names, __u64 name)
{
    return table_way_of4(names[0], names[1], names[2], names[3], name);
}

static __always_inline __u32 table_way8(volatile __u64 *names, __u64 name)
{
    __u64 e1 = table_same(names[1], name), e2 = table_same(names[2], name), e3 = table_same(names[3], name),
          e4 = table_same(names[4], name), e5 = table_same(names[5], name), e6 = table_same(names[6], name),
          e7 = table_same(names[7], name), odd = e1 | e3 | e5 | e7, two = e2 | e3 | e6 | e7, four = e4 | e5 | e6 | e7;
    return table_same(names[0], name) | odd | two | four ? odd + two * 2 + four * 4 : TABLE_NOT_FOUND;
}

/* An index in a form whose bound the verifiers of old kernels see, too. */
static __always_inline __u64 table_index(__u64 i, __u64 mask)
{
    asm volatile("" : "+r"(i));
    return i & mask;
}

/* True for one only, until it is released. `note`: for those who come too late, with the claim of a name. */
static __always_inline bool table_claim_with(__u64 what, __u8 note)
{
    return bpf_map_update_elem(&claims, &what, &note, BPF_NOEXIST) == 0;
}

static __always_inline bool table_claim(__u64 what)
{
    return table_claim_with(what, 0);
}

static __always_inline bool table_release(__u64 what)
{
    return bpf_map_delete_elem(&claims, &what) == 0;
}
