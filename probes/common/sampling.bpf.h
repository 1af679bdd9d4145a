/* Random numbers for sampling decisions: from the kernel's per-CPU random source or, in tests, from a seed. */
#pragma once

#include "probes/common/sampling.h"

const volatile __u64 sampling_seed = 0; /* 0: the kernel's random source */

/* `key` identifies the decision and is unique, so that with a seed the result does not depend on the order of events.
 */
static __always_inline __u32 sampling_random(__u64 key)
{
    return sampling_seed ? sampling_hash(sampling_seed, key) : bpf_get_prandom_u32();
}
