/* Where in the kernel CPUs are, by perf's own clock and walk: for looking into BPF programs. A sampler that is a BPF
 * program itself, as the cpu source's is, sees nothing of those that run at perf's tracepoints and kprobes: the kernel
 * lets no second one of that kind run on the CPU (bpf_prog_active in kernel/trace/bpf_trace.c and
 * kernel/events/core.c).
 *
 * No `struct source`: nothing here goes through the pipeline. One thread. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct kernel_samples;

/* Samples of `hz` a second and CPU, of code in the kernel alone; begun at once. -EACCES, -EPERM without CAP_PERFMON. */
int kernel_samples_new(uint32_t hz, struct kernel_samples **ret);
void kernel_samples_free(struct kernel_samples *s);
DEFINE_FREEP(kernel_samples)

/* One sample: the address at which the CPU was, then those to which that will return. */
typedef void (*kernel_samples_take)(void *context, const uint64_t *addresses, size_t count);

/* All that there are, and CPUs that came. To be called twice a second or more often, or some are lost. */
int kernel_samples_read(struct kernel_samples *s, kernel_samples_take take, void *context);

uint64_t kernel_samples_period_ns(const struct kernel_samples *s); /* of CPU time that each stands for */
/* Samples lost for want of room, and times that the kernel held back a CPU's. */
uint64_t kernel_samples_lost(const struct kernel_samples *s);
uint64_t kernel_samples_throttled(const struct kernel_samples *s);
