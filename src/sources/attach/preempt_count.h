/* Locates the x86-64 preempt count, which says whether an interrupt is being handled, for probes/common/context.bpf.h.
 */
#pragma once

#include <stdint.h>

/* Distance in bytes from a CPU's run queue to its preempt count, from the running kernel's BTF; 0: unknown. */
int64_t preempt_count_distance(void);
