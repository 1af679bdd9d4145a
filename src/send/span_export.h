/* Exports requests to an OTLP receiver as spans (export/otlp_spans.h), by a thread of its own. The pipeline thread only
 * queues them. A slow or failing receiver costs at most the oldest queued requests, counted by reason. */
#pragma once

#include "base/cleanup.h"
#include "config/config.h"
#include "model/memory_plan.h"
#include "model/metric.h"
#include "model/request.h"
#include "send/export_io.h"

struct span_export;

/* `*ret` is NULL if no receiver is configured. `io` NULL: libcurl and the system clock. `config` and `memory` are
 * copied as far as needed; the caller frees `*ret`. -errno: the receiver's settings are unusable (logged); -ENOMEM. */
int span_export_new(const struct config *config, const struct memory_plan *memory, const struct export_io *io,
                    struct span_export **ret);
/* Starts the sender thread, once. Forks must happen before. -errno: there is no thread, and nothing is sent. */
int span_export_start(struct span_export *e);
/* Sends the requests that are due. For the sender thread, and for tests, which start none. */
void span_export_send(struct span_export *e);
/* Ends the export: the sender thread delivers the queued spans for a few seconds at most. Does not wait. Accepts NULL.
 * A second call changes nothing. */
void span_export_end(struct span_export *e);
/* Waits for the sender thread, and logs the totals. */
void span_export_free(struct span_export *e);
DEFINE_FREEP(span_export)

/* Queues a copy of a request with a span, or of a newer record of one. Exports of agents are left out. A request whose
 * caller does not sample its trace is left out, and counted, unless it failed or is slow for its route (request.usual).
 * Never blocks. Pipeline thread.
 */
void span_export_add(struct span_export *e, const struct request *r);
/* Memory is short: drops and counts the older half of the queue. */
void span_export_trim(struct span_export *e);

void span_export_metrics(const struct span_export *e, struct metric_set *set); /* any thread */
