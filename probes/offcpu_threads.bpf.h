/* The table of threads, of the program that sees them leave their CPUs and of the one that reads the stacks of those that sleep: one table, of the first. */
#pragma once

#include "offcpu.h"

/* By thread. All there from the start: nothing may be allocated under the scheduler's locks. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, OFF_CPU_MAX_THREADS);
    __type(key, __u32);
    __type(value, struct off_cpu_thread);
} threads SEC(".maps");
