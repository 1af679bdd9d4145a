/* The default CPU limit; see budget_default.h. */
#include "config/budget_default.h"

/* At least MIN of one CPU (of a single CPU MIN_SHARE), at most MAX of one. */
#define SHARE     0.01 /* of all CPUs */
#define MIN       0.1
#define MIN_SHARE 0.05
#define MAX       0.5

double budget_default_one_cpu_share(long cpus)
{
    const double share = SHARE * (double)cpus, small = MIN_SHARE * (double)cpus, least = small < MIN ? small : MIN;
    return share < least ? least : share > MAX ? MAX : share;
}
