/* Times; see clock.h. */
#include "base/clock.h"

#include <time.h>

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t clock_unix_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

uint64_t clock_unix_from_monotonic(uint64_t monotonic_ns)
{
    return clock_unix_ns() - clock_monotonic_ns() + monotonic_ns;
}
