/* Limits the agent's own cost, measured once a second. What the budget allows and is not used is saved up, for a
 * minute: a new program's unwind tables cost more than a second's share, but once. When that is spent, detail is
 * reduced in a fixed order (enum source_detail); it is restored when there is headroom. Pure functions of their
 * arguments, except for budget_own_*. */
#pragma once

#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_WINDOW_SECONDS 10

struct budget {
    double cpu_share_allowed; /* of the whole machine */
    uint64_t memory_bytes_allowed;
    unsigned cpus;

    enum source_detail detail;
    double cpu_share;      /* measured, over ten seconds */
    uint64_t memory_bytes; /* the last measurement */
    bool over_memory;
    uint64_t changes; /* how often detail changed */

    /* private */
    uint64_t cpu_ns[BUDGET_WINDOW_SECONDS + 1], time_ns[BUDGET_WINDOW_SECONDS + 1];
    unsigned measured;
    double saved_ns; /* CPU time that may be used beyond the allowed share; below 0: over budget */
    uint64_t last_change_ns;
};

/* Sets the limits; nothing is measured yet, at full detail. `cpus`: of the machine. */
void budget_init(struct budget *b, double cpu_share_allowed, uint64_t memory_bytes_allowed, unsigned cpus);

/* Takes a measurement, about once a second; `now_ns` (CLOCK_MONOTONIC) must not decrease. `cpu_ns`: total CPU time used
 * so far (user space and BPF); a smaller one than before starts a new average. True: `b->detail` has changed. */
bool budget_measure(struct budget *b, uint64_t now_ns, uint64_t cpu_ns, uint64_t memory_bytes);

const char *budget_detail_name(enum source_detail detail); /* "full", "counts", "half", "least" */

/* Statistics of this process: CPU time of all threads; resident bytes without mapped BPF maps, which are counted on
 * the kernel side (a ring that is mapped twice would be counted three times). budget_own_resident_bytes reads all of
 * /proc/self/smaps (about 1 ms). */
uint64_t budget_own_cpu_ns(void);
uint64_t budget_own_resident_bytes(void);
