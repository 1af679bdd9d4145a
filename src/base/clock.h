/* Clocks. Records carry CLOCK_MONOTONIC nanoseconds (the kernel's bpf_ktime_get_ns); exported data carries Unix
 * nanoseconds. The offset is read at each conversion, so a stepped wall clock shifts later timestamps and never
 * changes a duration. */
#pragma once

#include <stdint.h>

uint64_t clock_monotonic_ns(void);
uint64_t clock_unix_ns(void);

/* Unix time of a monotonic time, by the present offset between the clocks. */
uint64_t clock_unix_from_monotonic(uint64_t monotonic_ns);
