/* How long threads wait for a CPU (runqueue.bpf.c): the record of a long wait, and the table of all waits. Shared by
 * the BPF program and src/sources/runqueue. */
#pragma once

#include "probes/common/record.h"

enum { RECORD_RUNQUEUE_DELAY = 64 }; /* struct runqueue_delay */

/* A thread was runnable for longer than the threshold before it got a CPU. The header has that thread, and the time at
 * which it got the CPU. */
struct runqueue_delay {
    struct record_header h;
    __u64 cgroup_id;
    __u64 delay_ns;
    __u32 cpu;
    __u32 previous_pid, previous_tid; /* the thread that ran on this CPU before; 0: the CPU was idle */
    __u32 reserved;
    char comm[16], previous_comm[16];
};
_Static_assert(sizeof(struct runqueue_delay) == 88, "record format");

#define RUNQUEUE_MAX_THREADS 16384
#define RUNQUEUE_MAX_CGROUPS 1024 /* the waits of further ones count for RUNQUEUE_OTHER */
#define RUNQUEUE_OTHER       0    /* in place of a cgroup's ID */

/* Bucket i counts the waits below 2^i microseconds that the buckets before it do not; the last one counts the rest. */
#define RUNQUEUE_BUCKETS 24

/* The waits of one cgroup. */
struct runqueue_waits {
    __u64 counts[RUNQUEUE_BUCKETS];
    __u64 sum_ns;
    __u64 delays; /* longer than the threshold */
};

/* Counters of the BPF program, per CPU. */
struct runqueue_stats {
    __u64 runs;
    __u64 run_time_ns;
    __u64 threads_full; /* waits of threads that did not fit the table */
    __u64 ring_full;    /* delays that are counted but have no record */
    __u64 shed;         /* context switches while disabled by the budget */
};
