/* Shared by the programs on context switches (offcpu.bpf.c) and the reader of sleeping tasks' stacks
 * (sleeping_tasks.bpf.c): the table of threads, which the former owns. */
#pragma once

#include "probes/offcpu.h"
#include "probes/offcpu/task_stack.bpf.h"

/* By thread. Preallocated: nothing may be allocated under the scheduler's locks. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, OFF_CPU_MAX_THREADS);
    __type(key, __u32);
    __type(value, struct off_cpu_thread);
} threads SEC(".maps");
