/* Exports the metrics of /metrics to an OTLP receiver, every interval, by a thread of its own. A collection that cannot
 * be delivered until the next one is dropped and counted: values are cumulative, and the next collection has them all.
 * So there is no queue, and a slow or failing receiver costs no memory. */
#pragma once

#include "base/cleanup.h"
#include "config/config.h"
#include "model/metric.h"
#include "send/export_io.h"

#include <stdint.h>

struct metrics_export;

struct metrics_source {
    /* Adds all metrics; called on the sender thread. `*ret_read_ns`: when the oldest of their values was read,
     * CLOCK_MONOTONIC. -errno: they are incomplete. */
    int (*collect)(void *context, struct metric_set *set, uint64_t *ret_read_ns);
    void *context;
    uint64_t start_ns; /* when counting began */
};

/* `*ret` is NULL if no receiver is configured. `io` NULL: libcurl and the system clock. `config` and `source` are
 * copied; the caller frees `*ret`. -errno: the receiver's settings are unusable (logged); -ENOMEM. */
int metrics_export_new(const struct config *config, const struct metrics_source *source, const struct export_io *io,
                       struct metrics_export **ret);
/* Starts the sender thread, once. Forks must happen before. -errno: there is no thread, and nothing is sent. */
int metrics_export_start(struct metrics_export *e);
/* Collects and sends once. For the sender thread, and for tests, which start none. */
void metrics_export_send(struct metrics_export *e);
/* Ends the export: the sender thread collects once more and delivers for a few seconds at most. Does not wait. Accepts
 * NULL. A second call changes nothing. */
void metrics_export_end(struct metrics_export *e);
/* Waits for the sender thread, and logs the totals. */
void metrics_export_free(struct metrics_export *e);
DEFINE_FREEP(metrics_export)

void metrics_export_metrics(const struct metrics_export *e, struct metric_set *set); /* any thread */
