/* Limits the agent's own cost, measured once a second. CPU time that the budget allows and the agent does not use is
 * saved up, at most the allowance of half a minute: a new program's unwind tables cost more than a second's share, but
 * once. When the savings are spent, detail is reduced in a fixed order (enum source_detail); it is restored when there
 * is headroom. A level lasts for half a minute at least, or ten seconds if the agent uses more than twice its budget,
 * and longer each time that it was left too early. Pure functions of their arguments, except for budget_own_*. */
#pragma once

#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_WINDOW_SECONDS 10

struct budget {
    double one_cpu_share_allowed; /* 0.05: 5 % of one CPU */
    uint64_t memory_bytes_allowed;
    unsigned levels; /* that reduce something: a bit `1u << enum source_detail` for each */

    enum source_detail detail;
    double one_cpu_share;  /* measured, over ten seconds */
    uint64_t memory_bytes; /* the last measurement */
    bool over_memory;
    uint64_t changes; /* how often detail changed */

    /* private */
    uint64_t cpu_ns[BUDGET_WINDOW_SECONDS + 1], time_ns[BUDGET_WINDOW_SECONDS + 1];
    unsigned measured;
    double saved_ns; /* CPU time that may be used beyond the allowed share; below 0: over budget */
    uint64_t last_change_ns;
    uint64_t restore_after_ns; /* how long a level lasts before detail is restored */
    bool was_restored;         /* the last change restored detail */
};

/* Sets the limits; nothing is measured yet, at full detail. `levels`: of pipeline_detail_levels. */
void budget_init(struct budget *b, double one_cpu_share_allowed, uint64_t memory_bytes_allowed, unsigned levels);

/* Takes a measurement, about once a second; `now_ns` (CLOCK_MONOTONIC) must not decrease. `cpu_ns`: total CPU time used
 * so far (user space and BPF); a smaller one than before starts a new average. True: `b->detail` has changed. */
bool budget_measure(struct budget *b, uint64_t now_ns, uint64_t cpu_ns, uint64_t memory_bytes);

/* Whether more is used than allowed and no level is left that would reduce it. */
bool budget_is_exhausted(const struct budget *b);

/* While more CPU time is used than allowed and detail is not reduced yet: why, and in how many seconds it is; else "".
 */
#define BUDGET_OUTLOOK_BYTES 192
const char *budget_outlook(const struct budget *b, uint64_t now_ns, char out[BUDGET_OUTLOOK_BYTES]);

const char *budget_detail_name(enum source_detail detail); /* "full", "no_wait_stacks", ..., "least" */

/* Statistics of this process: CPU time of all threads; resident bytes without mapped BPF maps, which are counted on
 * the kernel side (a ring that is mapped twice would be counted three times). budget_own_resident_bytes reads all of
 * /proc/self/smaps (about 1 ms). */
uint64_t budget_own_cpu_ns(void);
uint64_t budget_own_resident_bytes(void);
