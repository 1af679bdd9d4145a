/* Sums of counters that stop at the largest value: one that wraps would look like a counter that began anew. */
#pragma once

#include <stdint.h>

static inline uint64_t saturated_sum(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
