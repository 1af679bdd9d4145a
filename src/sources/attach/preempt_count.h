/* Where x86-64 kernels count what has come upon a thread (interrupts): for probes/common/context.bpf.h. */
#pragma once

#include <stdint.h>

/* How far behind its run queue a CPU's count lies, by the running kernel's BTF; 0: it does not say. */
int64_t preempt_count_distance(void);
