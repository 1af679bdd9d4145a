/* Selects, configures and loads the BPF programs of the CPU source. */
#pragma once

#include <stdint.h>

struct cpu_bpf;
struct source_services;

/* Value of one clock tick or event hit: nanoseconds, or the event's period. */
uint64_t cpu_weight(const struct source_services *services);

/* Loads the programs; the caller destroys `*ret`. Errors are the
 * kernel's. */
int cpu_load(const struct source_services *services, int cpu_count, struct cpu_bpf **ret);
