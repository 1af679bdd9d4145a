/* The default CPU limit. */
#pragma once

/* The default of budget.one_cpu for a machine with so many CPUs. Most of the agent's cost follows the traffic, that of
 * CPU samples the number of CPUs: 1 % of all CPUs together, but at least 10 % of one CPU (5 % on a machine with one)
 * and at most 50 %. */
double budget_default_one_cpu_share(long cpus);
