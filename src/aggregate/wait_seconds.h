/* Total off-CPU time of threads since the start, by service and reason: the counters of /metrics. Bounded: further
 * services are counted as "other". Thread-safe: the pipeline adds, HTTP threads read. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/sample.h"

struct wait_seconds;

/* The caller frees `*ret`. -ENOMEM. */
int wait_seconds_new(struct wait_seconds **ret);
void wait_seconds_free(struct wait_seconds *w);
DEFINE_FREEP(wait_seconds)

/* Adds the value of `s`, which must be an off-CPU sample: with a wait_reason. Copies the names. */
void wait_seconds_add(struct wait_seconds *w, const struct sample *s);
void wait_seconds_metrics(struct wait_seconds *w, struct metric_set *set);
