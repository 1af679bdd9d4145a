/* Which task each thread ran last, of programs that schedule tasks on threads themselves (recorder_goroutine.bpf.h):
 * tables.bpf.c creates the map, and the flight recorder's programs write it. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#define RECORDER_TASKS_MAX 8192

/* The goroutine that a thread ran last. */
struct recorder_task {
    __u64 address, id;
    __u32 reason;  /* of the wait that was recorded last, as the runtime numbers it */
    __u32 is_told; /* a wait of it was recorded since it was seen to run */
};

/* By thread. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, RECORDER_TASKS_MAX);
    __type(key, __u32);
    __type(value, struct recorder_task);
} recorder_tasks SEC(".maps");
