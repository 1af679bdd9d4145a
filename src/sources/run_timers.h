/* What a source's BPF programs cost, from the timers that they keep themselves (probes/common/run_timer.bpf.h). */
#pragma once

#include "model/metric.h"

#include <linux/types.h>

#include "probes/common/run_timer.h"

#include <stddef.h>
#include <stdint.h>

/* `run_timers` of the program's memory: a row a CPU, a column a timer. */
typedef const struct run_timer (*run_timers)[RUN_TIMER_PLACES];

/* CPU time spent in all programs of the first `count` timers. */
uint64_t run_timers_ns(run_timers timers, size_t count);
/* Adds the runs and the CPU time of each of the `count` timers, under the names of their programs. */
void run_timers_put(run_timers timers, const char *const *names, size_t count, struct metric_set *set);
