/* The user stacks of waits. Most requests wait in the same few places: a stack is kept once, for all requests, by its
 * name (request.h), until it goes out in the record of one of them. Part of request.bpf.c. */
#pragma once

#include "probes/request/request_state.bpf.h"

#define STACKS_MAX  1024
#define STACKS_WAYS 4

struct request_stack {
    __u64 name; /* 0: free */
    __u64 used_ns;
    __u32 frames;
    __u32 end; /* enum unwind_end */
    __u64 address[REQUEST_USER_FRAMES];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, STACKS_MAX);
    __type(key, __u32);
    __type(value, struct request_stack);
} request_stacks SEC(".maps");

/* Where a name may be. */
static __always_inline __u32 stack_place(__u64 name, __u32 way)
{
    return (name >> 32) + way & (STACKS_MAX - 1);
}

/* Its index, or STACKS_MAX. A global function: verified once, and not for each wait of a record. */
__noinline __u32 stack_find(__u64 name)
{
    for (__u32 way = 0; way < STACKS_WAYS; way++) {
        __u32 index = stack_place(name, way);
        struct request_stack *s = bpf_map_lookup_elem(&request_stacks, &index);
        if (s && s->name == name)
            return index;
    }
    return STACKS_MAX;
}
