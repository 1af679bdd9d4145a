/* What runs and what waits, each in windows of its own, as one answer: CPU time, waiting time, or both, which is
 * wall-clock time. Thread-safe, as windows are. */
#pragma once

#include "aggregate/windows.h"

struct wall_time {
    struct windows *cpu;
    struct windows *waits; /* NULL: nobody looks at them, and all but CPU time is -EOPNOTSUPP */
    uint64_t slot_ns;      /* of both */
};

/* As windows_snapshot, of the filter's time. */
int wall_time_span(struct wall_time t, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   struct profile **ret);
/* As windows_region; a wait is no moment: all but CPU time is of whole slots. -ERANGE: it is still to come. */
int wall_time_region(struct wall_time t, uint64_t from_ns, uint64_t to_ns, uint64_t now_ns,
                     const struct profile_filter *filter, struct profile **ret);
