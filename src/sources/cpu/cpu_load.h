/* Selects, configures and loads the BPF programs of the CPU source. */
#pragma once

#include <stdint.h>

struct cpu_bpf;
struct source_options;

/* Value of one clock tick or event hit: nanoseconds, or the event's period. */
uint64_t cpu_weight(const struct source_options *options);

/* Loads the programs; the caller destroys `*ret`. On failure tries again with preallocated maps, which kernels before
 * 6.1 require in programs of perf events. -EPERM is final; other errors are the kernel's. */
int cpu_load(const struct source_options *options, int cpu_count, struct cpu_bpf **ret);
