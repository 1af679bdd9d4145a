/* The default limits; see budget_default.h. */
#include "config/budget_default.h"

/* At least MIN of one CPU (of a single CPU MIN_SHARE), at most MAX of one. */
#define SHARE            0.01 /* of all CPUs */
#define MIN              0.1
#define MIN_SHARE        0.05
#define MAX              0.5

#define MEMORY_BYTES     ((uint64_t)64 << 20)
#define MEMORY_CPUS      16
#define MEMORY_CPU_BYTES ((uint64_t)1 << 20) /* of each further one */
#define MEMORY_MAX_BYTES ((uint64_t)128 << 20)

double budget_default_one_cpu_share(long cpus)
{
    const double share = SHARE * (double)cpus, small = MIN_SHARE * (double)cpus, least = small < MIN ? small : MIN;
    return share < least ? least : share > MAX ? MAX : share;
}

uint64_t budget_default_memory_bytes(long cpus)
{
    const uint64_t further = cpus > MEMORY_CPUS ? (uint64_t)cpus - MEMORY_CPUS : 0,
                   bytes = MEMORY_BYTES + further * MEMORY_CPU_BYTES;
    return bytes < MEMORY_MAX_BYTES ? bytes : MEMORY_MAX_BYTES;
}
