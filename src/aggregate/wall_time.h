/* Combines the windows of CPU samples and of off-CPU samples: profiles of CPU time, off-CPU time, or both (wall-clock
 * time). Thread-safe, like windows. */
#pragma once

#include "aggregate/windows.h"

struct wall_time {
    struct windows *cpu;
    struct windows *waits; /* NULL: off-CPU time is not monitored, and all but CPU time is -EOPNOTSUPP */
    uint64_t slot_ns;      /* of both */
};

/* Like windows_snapshot, for the filter's kind of time. */
int wall_time_span(struct wall_time t, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   struct profile **ret);
/* Like windows_region. Waits have no position within a slot, so off-CPU and wall-clock time cover whole slots.
 * -ERANGE: in the future. */
int wall_time_region(struct wall_time t, uint64_t from_ns, uint64_t to_ns, uint64_t now_ns,
                     const struct profile_filter *filter, struct profile **ret);
