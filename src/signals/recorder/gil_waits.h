/* How long the threads of Python programs have waited for the GIL, by service: counters of /metrics. Bounded: further
 * services count as "other". Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

#include <stdint.h>

struct gil_waits;
struct signal_services;

/* `services` are borrowed until gil_waits_free; `recorder_source` is the opened source (sources/recorder/recorder.h).
 * The caller frees `*ret`. -ENOMEM. */
int gil_waits_new(const struct signal_services *services, void *recorder_source, struct gil_waits **ret);
void gil_waits_free(struct gil_waits *w);
DEFINE_FREEP(gil_waits)

/* Once a turn: reads what the source has counted, at most once a second, while the processes can be named. */
void gil_waits_follow(struct gil_waits *w, uint64_t now_ns);
void gil_waits_metrics(const struct gil_waits *w, struct metric_set *set);
