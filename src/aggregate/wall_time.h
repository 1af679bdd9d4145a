/* Profiles of wall-clock time: this type has no samples, as it is the sum of the windows of CPU time
 * and off-CPU time. Thread-safe, like windows. */
#pragma once

#include "aggregate/window.h"

struct wall_time {
    struct window *cpu, *off_cpu; /* NULL: no such window; every query is -EOPNOTSUPP */
};

/* Like window_snapshot: `*ret` is the caller's, of sample_type_wall. */
int wall_time_snapshot(struct wall_time t, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                       struct profile **ret);
/* Like window_region, for whole slots. The last slot may still be being filled at `now_ns`. */
int wall_time_region(struct wall_time t, uint64_t from_ns, uint64_t to_ns, uint64_t now_ns,
                     const struct profile_filter *filter, struct profile **ret);
