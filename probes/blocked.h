/* Tasks in uninterruptible sleep, which count for the load average: a task as blocked.bpf.c writes it, and the records
 * of one walk over all tasks. Shared by the BPF program, src/sources/blocked and src/signals/blocked. */
#pragma once

#include "probes/common/record.h"

enum {
    RECORD_BLOCKED = 144,      /* struct blocked_record */
    RECORD_BLOCKED_WALK = 145, /* struct blocked_walk: the end of a walk, after its tasks */
};

#define BLOCKED_FRAMES        16
#define BLOCKED_KERNEL_THREAD 1    /* flags of a task */
#define BLOCKED_BY_CHILD      2    /* its holder is its vforked child, until that executes a program or exits */
#define BLOCKED_MAX_TASKS     1024 /* of one walk; further ones are only counted */

struct blocked_task {
    __u32 pid, tid;
    __u32 holder_pid, holder_tid; /* the thread that it waits for; 0: not known */
    __u64 switches;               /* how often it has left its CPU */
    __u32 flags;
    __u32 frames; /* in `stack` */
    char comm[16], holder_comm[16];
    __u64 stack[BLOCKED_FRAMES]; /* of the kernel, leaf first */
};
_Static_assert(sizeof(struct blocked_task) == 192, "format of the iterator");

/* A task that has been blocked since the walk before, or longer. The header has the time of the walk. */
struct blocked_record {
    struct record_header h;
    __u64 blocked_ns;  /* at least */
    __u64 interval_ns; /* since the walk before */
    struct blocked_task task;
};
_Static_assert(sizeof(struct blocked_record) == 232, "record format");

struct blocked_walk {
    struct record_header h;
    __u32 tasks;           /* of the node; 0: the node was idle, and no walk was needed */
    __u32 runnable;        /* running, or waiting for a CPU */
    __u32 uninterruptible; /* also those that have only just begun to wait */
    __u32 cpus;
    __u32 load_hundredths; /* average of one minute */
    __u32 reserved;
};
_Static_assert(sizeof(struct blocked_walk) == 48, "record format");

/* Counters of a walk, set to 0 before it. */
struct blocked_counts {
    __u32 tasks, runnable, uninterruptible, reserved;
};
