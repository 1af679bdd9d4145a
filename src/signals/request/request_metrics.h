/* Sums the counters that probes/request.bpf.c keeps per process into metrics per service. Counts of ended processes
 * stay in the sums of their service. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

#include <stdint.h>

struct processes;
struct request_metrics;

/* `source` is an opened source_request; it and `processes` are borrowed. Processes that `processes` does not know are
 * named after their command (NULL: all). -ENOMEM. The caller frees `*ret`. */
int request_metrics_new(void *source, struct processes *processes, struct request_metrics **ret);
void request_metrics_free(struct request_metrics *m);
DEFINE_FREEP(request_metrics)

/* Adds http_server_request_duration_seconds, per service and status class. */
void request_metrics_write(struct request_metrics *m, struct metric_set *set);

/* Assigns new processes to services and frees the places of ended ones; works every few seconds. */
void request_metrics_sweep(struct request_metrics *m, uint64_t now_ns);
