/* See request_totals.h. */
#include "aggregate/request_totals.h"

/* Requests without a weight have a record because they are slow or failed. */
void request_totals_add(const struct request_ring *ring, uint64_t since_ns, struct request_totals *totals)
{
    for (size_t i = 0; i < ring->count; i++) {
        const struct request_entry *e = &ring->entries[i];
        if (e->end_ns < since_ns)
            continue;
        totals->abnormal += e->weight == 0;
        totals->over_budget += e->weight == 0 && e->is_over_budget;
        if (!e->is_explained || e->is_over_budget)
            continue;
        totals->explained += e->weight;
        totals->time_ns += e->weight * ((double)e->duration_ns - 1000.0 * e->kind_us[REQUEST_PART_UNATTRIBUTED]);
        totals->run_queue_ns += e->weight * 1000.0 * e->kind_us[REQUEST_PART_RUN_QUEUE];
    }
}
