/* Processes that the kernel kills for memory, and processes whose memory grows: what oom.bpf.c writes. Shared by the
 * BPF program, src/sources/oom and src/signals/oom. */
#pragma once

#include "probes/common/record.h"

enum {
    RECORD_OOM_KILL = 160, /* struct oom_kill */
    /* struct stack_record (unwind/stack.h) of cpu.bpf.c: where a process whose memory grows had a page fault. Its value
     * is the number of page faults that it stands for. */
    RECORD_PAGE_FAULTS = 161,
};

/* Pages, by the counters of the process that the kernel's own message prints. */
struct oom_memory {
    __u64 file, anonymous, swapped, shared; /* in the order of the kernel's counters; `shared`: of shmem and tmpfs */
};

/* The header has the victim, and when it was killed. */
struct oom_kill {
    struct record_header h;
    __u64 cgroup_id;       /* of the victim, in the hierarchy that identifies jobs */
    __u64 limit_cgroup_id; /* whose limit was reached, in the hierarchy of the memory controller; 0: the node has no
                              memory left */
    __u64 limit_pages;
    struct oom_memory memory; /* of the victim */
    __u32 by_pid, by_tid;     /* the thread that asked for memory */
    __u32 is_group;           /* memory.oom.group: all processes of the cgroup are killed */
    __u32 reserved;
    char comm[16], by_comm[16];
};
_Static_assert(sizeof(struct oom_kill) == 128, "record format");

/* A process, as the iterator writes it. */
struct oom_process {
    __u32 pid;
    __u32 is_below; /* it is in the cgroup `below_cgroup_id`, or in one below that */
    __u64 start_ns; /* CLOCK_MONOTONIC */
    struct oom_memory memory;
    __u64 left_pages; /* that the limits of its cgroups leave; without a limit, more than any node has */
    char comm[16];
};
_Static_assert(sizeof(struct oom_process) == 72, "format of the iterator");
