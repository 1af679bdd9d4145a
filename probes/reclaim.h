/* Threads that free memory before they get some (reclaim.bpf.c): counters by cgroup, and the record of a thread that
 * spent long in it. Shared by the BPF program, src/sources/reclaim and src/signals/reclaim. */
#pragma once

#include "probes/common/record.h"

enum { RECORD_RECLAIM = 112 }; /* struct reclaim_record */

enum reclaim_kind {
    RECLAIM_NODE,       /* direct reclaim: the node is short of memory */
    RECLAIM_LIMIT,      /* direct reclaim in a cgroup that has reached its own limit or the limit of a parent */
    RECLAIM_COMPACTION, /* moves pages, for an allocation of several adjacent ones */
    RECLAIM_KINDS,
};

#define RECLAIM_MAX_CGROUPS 512 /* further ones count for RECLAIM_OTHER */
#define RECLAIM_MAX_THREADS 512
#define RECLAIM_OTHER       0 /* in place of a cgroup's ID */

/* One reclaim frees a few pages in a few microseconds, so that a thread that waits for long does it many times. What
 * counts as long is therefore a sum over runs of one kind: at least T, and each run began within RECLAIM_SPREAD * T
 * after the first one did. */
#define RECLAIM_SPREAD      10
#define RECLAIM_RECORDER_NS 200000 /* T of a record in the flight recorder */

struct reclaim_count {
    __u64 runs;
    __u64 ns;
    __u64 pages; /* freed; of compaction 0 */
};

struct reclaim_cgroup {
    struct reclaim_count kinds[RECLAIM_KINDS];
};

/* Timers of the programs (run_timer.bpf.h). */
enum { RECLAIM_TIMER_BEGIN, RECLAIM_TIMER_END, RECLAIM_TIMERS };

/* A thread spent at least the threshold in runs of one kind. The header has that thread, and the end of the last run.
 */
struct reclaim_record {
    struct record_header h;
    __u64 cgroup_id;
    __u64 ns;          /* the sum */
    __u64 interval_ns; /* since the first run began */
    __u32 kind;        /* enum reclaim_kind */
    __u32 reserved;
    char comm[16];
};
_Static_assert(sizeof(struct reclaim_record) == 72, "record format");
