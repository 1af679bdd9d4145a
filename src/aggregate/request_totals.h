/* How much of the time of recorded requests was a wait for a CPU, and how many slow ones have no path. Pure. */
#pragma once

#include "aggregate/request_entries.h"

struct request_totals {
    double explained;             /* requests whose components are known, in the sample, by weight */
    double time_ns, run_queue_ns; /* their explained time, and their waits for a CPU in it */
    uint32_t abnormal;            /* recorded requests that are slow or failed; the latest of each route */
    uint32_t over_budget;         /* abnormal requests without a path, to keep to budget.one_cpu */
};

/* Adds the requests of a ring that ended at `since_ns` or later. */
void request_totals_add(const struct request_ring *ring, uint64_t since_ns, struct request_totals *totals);
