/* Sums the counters that probes/request.bpf.c keeps per process, and has them divided by method, route and status
 * (request_series.h). Counts of ended processes stay in the sums of their service. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/request.h"

#include <stdint.h>

struct processes;
struct request_metrics;

/* `source` is an opened source_request; it and `processes` are borrowed. Processes that `processes` does not know are
 * named after their command (NULL: all). -ENOMEM. The caller frees `*ret`. */
int request_metrics_new(void *source, struct processes *processes, struct request_metrics **ret);
void request_metrics_free(struct request_metrics *m);
DEFINE_FREEP(request_metrics)

/* Notes a request with a record, or a newer record of it. */
void request_metrics_record(struct request_metrics *m, const struct request *request);

/* Adds http_server_request_duration_seconds. Requests without a record are in it a second after their end at the
 * latest. `now_ns`: CLOCK_MONOTONIC, here and below. */
void request_metrics_write(struct request_metrics *m, uint64_t now_ns, struct metric_set *set);

/* Divides the counts among the series, assigns new processes to services and frees the places of ended ones; works
 * twice a second. */
void request_metrics_sweep(struct request_metrics *m, uint64_t now_ns);
