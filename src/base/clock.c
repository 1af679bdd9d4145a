/* Clocks; see clock.h. */
#include "base/clock.h"

#include <time.h>

#define NEAR_NS   10000
#define TRIES_MAX 20 /* limit for machines where reading the clock is a slow system call */

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

/* Reads CLOCK_REALTIME between two readings of CLOCK_MONOTONIC; repeats when these are far apart because the thread
 * was preempted in between. */
uint64_t clock_unix_from_monotonic(uint64_t monotonic_ns)
{
    uint64_t before_ns, unix_ns, apart_ns;
    int tries = 0;
    do {
        before_ns = clock_monotonic_ns();
        unix_ns = clock_unix_ns();
        apart_ns = clock_monotonic_ns() - before_ns;
    } while (apart_ns > NEAR_NS && ++tries < TRIES_MAX);
    return unix_ns - (before_ns + apart_ns / 2) + monotonic_ns;
}
