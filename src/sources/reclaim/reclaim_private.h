/* The state of source "reclaim", and its metrics. Private to src/sources/reclaim. */
#pragma once

#include "sources/events/record_ring.h"
#include "sources/reclaim/reclaim.h"
#include "sources/sampling/cgroup_names.h"

#include <linux/types.h>

#include "probes/reclaim.h"

#define RECLAIM_LINKS 8

struct bpf_link;
struct reclaim_bpf;

struct reclaim_source {
    struct reclaim_bpf *bpf;
    struct bpf_link *links[RECLAIM_LINKS]; /* NULL: this kernel has no such tracepoint */
    const struct shared_tables *tables;
    struct record_ring ring;
    struct cgroup_names names;
    int memory_fd; /* from cgroup_memory_open; negative: no memory controller */
};

void reclaim_put_metrics(struct reclaim_source *s, struct metric_set *set);
