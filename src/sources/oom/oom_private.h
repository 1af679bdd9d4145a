/* The state of source "oom". Private to src/sources/oom. */
#pragma once

#include "sources/attach/thread_events.h"
#include "sources/events/record_ring.h"
#include "sources/oom/oom.h"
#include "sources/oom/oom_growth.h"
#include "sources/sampling/cgroup_names.h"

struct bpf_link;
struct oom_bpf;

struct oom_watched {
    uint32_t pid;                 /* 0: no process */
    struct thread_events *events; /* NULL: not sampled until `resume_ns` */
    uint64_t period;              /* page faults of a thread for each sample */
    uint64_t faults, read_ns;     /* of the process, when they were last read */
    uint64_t resume_ns;
};

struct oom_source {
    struct oom_bpf *bpf;
    struct bpf_link *links[2], *iterator; /* NULL: refused */
    const struct shared_tables *tables;
    struct record_ring ring;
    struct cgroup_names names;
    struct oom_growth *growth;
    struct oom_watched watched[OOM_FASTEST_MAX];
    bool is_started, is_shed;
    uint64_t checked_ns, next_walk_ns;
    uint64_t anonymous_kib; /* of the node: the least since the last walk */
    uint64_t walks, run_time_ns;
};

/* Once a turn: finds the processes that grow fastest, when that is due, and has their page faults sampled. */
void oom_follow_growth(struct oom_source *s, uint64_t now_ns);
void oom_stop_watching(struct oom_source *s);
