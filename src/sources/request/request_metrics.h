/* The counters that probes/request.bpf.c keeps for every process that serves requests, summed up by service
 * as metrics. What processes that have gone had counted stays in their service's sums. Never used by two
 * threads at a time. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

#include <stdint.h>

struct request_bpf;
struct request_metrics;
struct request_service_names;

/* `bpf` is borrowed. */
int request_metrics_new(struct request_bpf *bpf, struct request_metrics **ret);
void request_metrics_free(struct request_metrics *m);
DEFINE_FREEP(request_metrics)

void request_metrics_set_names(struct request_metrics *m, const struct request_service_names *names);

void request_metrics_write(struct request_metrics *m, struct metric_set *set);

/* Gives new processes to their services and takes back the places of those that have gone; looks every few
 * seconds. */
void request_metrics_sweep(struct request_metrics *m, uint64_t now_ns);
