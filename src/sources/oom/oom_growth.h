/* Which processes' memory grows fastest where a limit is near, from walks over all processes. Pure, bounded. */
#pragma once

#include <linux/types.h>

#include "probes/oom.h"

#include <stddef.h>
#include <stdint.h>

#define OOM_PROCESSES_MAX 2048 /* of a walk; further ones are left out */
#define OOM_LEAST_PAGES   2048 /* smaller processes are left out */
#define OOM_LEAST_GROWTH  256  /* pages in a minute: slower processes do not grow */
#define OOM_NEAR_MINUTES  2    /* a limit is near if all that grows reaches it in so many minutes */
#define OOM_FASTEST_MAX   8

/* The memory that counts for the growth of a process: anonymous, shared and swapped. */
static inline uint64_t oom_grown_pages(const struct oom_memory *m)
{
    return m->anonymous + m->shared + m->swapped;
}

struct oom_grown {
    uint32_t pid;
    uint32_t pages;    /* oom_grown_pages */
    uint32_t growth;   /* pages of about the last minute, less those that it gave back */
    uint32_t start_ms; /* of the process; the lower half */
    uint32_t left;     /* pages until a limit, of its cgroups or of the node, is reached; UINT32_MAX: or more */
};

struct oom_growth {
    uint64_t now_ns, before_ns; /* of the present walk and of the one before; 0: none */
    uint64_t left_pages;        /* of the node */
    uint64_t growth;            /* of all processes */
    size_t count, before_count;
    struct oom_grown processes[OOM_PROCESSES_MAX], before[OOM_PROCESSES_MAX]; /* by `pid` */
};

/* Begins a walk; the one before becomes its past. The node has `left_pages` until it has no memory left. */
void oom_growth_begin(struct oom_growth *g, uint64_t now_ns, uint64_t left_pages);
/* Adds a process. A process that the walk before lacks has grown by all that it has, except in the first walk. */
void oom_growth_add(struct oom_growth *g, const struct oom_process *p);
/* Writes the processes that grow fastest, in no order, of those whose limit is near: page faults of the others would be
 * sampled for nothing. Returns how many. */
size_t oom_growth_fastest(const struct oom_growth *g, uint32_t ret_pids[OOM_FASTEST_MAX]);
