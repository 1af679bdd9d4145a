/* The agent's own cost, held to what it was allowed: measured once a second, averaged over ten, and answered with less
 * detail in a stated order (enum source_detail) while over it, with more again when there is room. Pure but for what it
 * is told. */
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
    double cpu_share;      /* measured, over the window */
    uint64_t memory_bytes; /* measured last */
    bool over_memory;
    uint64_t changes; /* how often detail changed */

    /* private */
    uint64_t cpu_ns[BUDGET_WINDOW_SECONDS + 1], time_ns[BUDGET_WINDOW_SECONDS + 1];
    unsigned measured;
    uint64_t last_change_ns;
};

void budget_init(struct budget *b, double cpu_share_allowed, uint64_t memory_bytes_allowed, unsigned cpus);

/* `cpu_ns`: all that was used so far (user space and BPF). Returns true when `b->detail` has changed. */
bool budget_measure(struct budget *b, uint64_t now_ns, uint64_t cpu_ns, uint64_t memory_bytes);

const char *budget_detail_name(enum source_detail detail); /* "full", "counts", "half", "least" */

/* Figures of this process: CPU time of all threads; resident bytes, without BPF maps that it has mapped: those are the
 * kernel's, are counted there, and a ring that is mapped twice would be counted three times. Reads all of
 * /proc/self/smaps (about 1 ms). */
uint64_t budget_own_cpu_ns(void);
uint64_t budget_own_resident_bytes(void);
