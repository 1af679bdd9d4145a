/* The programs of CPU samples on their way into the kernel: which of them, with which constants, with maps of which
 * sizes. */
#pragma once

#include <stdint.h>

struct cpu_bpf;
struct source_options;

/* What a tick of the clock, or a hit of the event, stands for: nanoseconds, or the event's period. */
uint64_t cpu_weight(const struct source_options *options);

/* The caller destroys `*ret`. Tried twice: kernels before 6.1 refuse tables that allocate as they grow in programs of
 * perf events. -EPERM and other errors of the kernel's. */
int cpu_load(const struct source_options *options, int cpu_count, struct cpu_bpf **ret);
