/* Samples of kernel stacks by perf's clock and unwinder, to profile BPF programs. A sampler that is itself a BPF
 * program, like the CPU source, cannot see programs on perf's tracepoints and kprobes: the kernel runs no second
 * program of that kind on the CPU (bpf_prog_active in kernel/trace/bpf_trace.c and kernel/events/core.c).
 *
 * Not a `struct source`: nothing goes through the pipeline. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct kernel_samples;

/* Starts sampling kernel code at `hz` per second and CPU. -EACCES, -EPERM: lacks CAP_PERFMON. The caller frees `*ret`.
 */
int kernel_samples_new(uint32_t hz, struct kernel_samples **ret);
void kernel_samples_free(struct kernel_samples *s);
DEFINE_FREEP(kernel_samples)

/* One sample: the address where the CPU was, then the return addresses. */
typedef void (*kernel_samples_take)(void *context, const uint64_t *addresses, size_t count);

/* Passes all available samples to `take`, valid during the call, and opens events on new CPUs. Call at least twice a
 * second, or samples are lost. 0, or -errno of opening an event. */
int kernel_samples_read(struct kernel_samples *s, kernel_samples_take take, void *context);

uint64_t kernel_samples_period_ns(const struct kernel_samples *s); /* CPU time per sample */
/* Samples lost because the ring was full, and how often the kernel throttled an event. */
uint64_t kernel_samples_lost(const struct kernel_samples *s);
uint64_t kernel_samples_throttled(const struct kernel_samples *s);
