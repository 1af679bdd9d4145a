/* Random-sampling decisions as pure functions of a random number: the BPF programs make them, tests repeat them. */
#pragma once

#include "probes/common/hash.h"

/* The number used for `key` with a seed, in place of the kernel's random number. */
static inline __u32 sampling_hash(__u64 seed, __u64 key)
{
    return (__u32)(hash_mix(hash_mix(seed, key), seed) >> 32);
}

/* Whether a wait is recorded: with a probability of length_ns / of_ns, both below 2^32 unless the wait is
 * always recorded. */
static inline int sampling_takes_wait(__u32 random, __u64 length_ns, __u64 of_ns)
{
    return length_ns >= of_ns || (random * of_ns) >> 32 < length_ns;
}

/* The number of waits that a recorded one of length_ns < of_ns is weighted for: of_ns / length_ns, rounded at random
 * so that the mean is exact. */
static inline __u32 sampling_wait_count(__u32 random, __u64 length_ns, __u64 of_ns)
{
    return (__u32)(of_ns / length_ns + (random % length_ns < of_ns % length_ns));
}
