/* Times. Records carry CLOCK_MONOTONIC nanoseconds (the kernel's bpf_ktime_get_ns); whatever leaves the house carries
 * Unix nanoseconds. The offset is read when a value is converted, so a stepped wall clock shifts what is said from then
 * on and never a duration. */
#pragma once

#include <stdint.h>

uint64_t clock_monotonic_ns(void);
uint64_t clock_unix_ns(void);

/* Unix time of a monotonic moment, by the offset between the clocks now. */
uint64_t clock_unix_from_monotonic(uint64_t monotonic_ns);
