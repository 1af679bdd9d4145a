/* The counters that probes/request.bpf.c keeps for every process that serves requests, as metrics; and their housekeeping: a
 * process's figures stay for a while after it has gone, so that the last ones are scraped too. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

#include <stdint.h>

struct request_bpf;
struct request_metrics;

/* `bpf` is borrowed. */
int request_metrics_new(struct request_bpf *bpf, struct request_metrics **ret);
void request_metrics_free(struct request_metrics *m);
DEFINE_FREEP(request_metrics)

void request_metrics_write(struct request_metrics *m, struct metric_set *set);

/* Drops the counters of processes that have gone; looks every few seconds. */
void request_metrics_sweep(struct request_metrics *m, uint64_t now_ns);

