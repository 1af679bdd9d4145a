/* The default limits of the agent, by the number of CPUs. */
#pragma once

#include <stdint.h>

/* The default of budget.one_cpu for a machine with so many CPUs. Most of the agent's cost follows the traffic, that of
 * CPU samples the number of CPUs: 1 % of all CPUs together, but at least 10 % of one CPU (5 % on a machine with one)
 * and at most 50 %. */
double budget_default_one_cpu_share(long cpus);

/* The default of budget.memory: 64 MiB, and 1 MiB for each CPU beyond 16, up to 128 MiB. The flight recorder is divided
 * among the CPUs, and what the kernel's perf events and maps hold for each CPU leaves less for it. */
uint64_t budget_default_memory_bytes(long cpus);
