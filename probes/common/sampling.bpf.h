/* Where the random numbers of sampling decisions come from: the kernel's random source, on each CPU its own;
 * or, in tests, a seed. */
#pragma once

#include "probes/common/sampling.h"

const volatile __u64 sampling_seed = 0; /* 0: the kernel's random source */

/* `key` names the decision, and no two decisions have the same: what is drawn for it under a seed does not
 * depend on the order of events. */
static __always_inline __u32 sampling_random(__u64 key)
{
    return sampling_seed ? sampling_hash(sampling_seed, key) : bpf_get_prandom_u32();
}
