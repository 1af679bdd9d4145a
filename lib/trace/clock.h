/* Readings of a clock in nanoseconds. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t trace_read_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
