/* Decisions of random sampling, as pure functions of a random number: the BPF side makes them, tests compute
 * them again. */
#pragma once

#include "probes/common/hash.h"

/* The random number that stands for `key` under a seed: drawn instead of the kernel's. */
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

/* How many waits a recorded one of length_ns < of_ns stands for: of_ns / length_ns, rounded at random so that
 * the mean is true. */
static inline __u32 sampling_wait_count(__u32 random, __u64 length_ns, __u64 of_ns)
{
    return (__u32)(of_ns / length_ns + (random % length_ns < of_ns % length_ns));
}
