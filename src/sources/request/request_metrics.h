/* Sums the counters that probes/request.bpf.c keeps per process into metrics per service. Counts of ended processes
 * stay in the sums of their service. Not thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

#include <stdint.h>

struct request_bpf;
struct request_metrics;
struct request_service_names;

/* `bpf` is borrowed. -ENOMEM. The caller frees `*ret`. */
int request_metrics_new(struct request_bpf *bpf, struct request_metrics **ret);
void request_metrics_free(struct request_metrics *m);
DEFINE_FREEP(request_metrics)

/* Copies `names`; see request_services.h. */
void request_metrics_set_names(struct request_metrics *m, const struct request_service_names *names);

/* Adds http_server_request_duration_seconds, per service and status class. */
void request_metrics_write(struct request_metrics *m, struct metric_set *set);

/* Assigns new processes to services and frees the places of ended ones; works every few seconds. */
void request_metrics_sweep(struct request_metrics *m, uint64_t now_ns);
