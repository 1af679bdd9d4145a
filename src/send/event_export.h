/* Exports events of the node to an OTLP receiver as log records (export/otlp_logs.h), by a thread of its own. The
 * pipeline thread only queues them. A slow or failing receiver costs at most the oldest queued events, counted by
 * reason. */
#pragma once

#include "base/cleanup.h"
#include "config/config.h"
#include "model/memory_plan.h"
#include "model/metric.h"
#include "model/node_event.h"
#include "send/export_io.h"

struct event_export;

/* `*ret` is NULL if no receiver is configured. `io` NULL: libcurl and the system clock. `config` and `memory` are
 * copied as far as needed; the caller frees `*ret`. -errno: the receiver's settings are unusable (logged); -ENOMEM. */
int event_export_new(const struct config *config, const struct memory_plan *memory, const struct export_io *io,
                     struct event_export **ret);
/* Starts the sender thread, once. Forks must happen before. -errno: there is no thread, and nothing is sent. */
int event_export_start(struct event_export *e);
/* Sends the queued events. For the sender thread, and for tests, which start none. */
void event_export_send(struct event_export *e);
/* Ends the export: the sender thread delivers the queued events for a few seconds at most. Does not wait. Accepts NULL.
 * A second call changes nothing. */
void event_export_end(struct event_export *e);
/* Waits for the sender thread, and logs the totals. */
void event_export_free(struct event_export *e);
DEFINE_FREEP(event_export)

/* Queues a copy of an event that ended at `unix_ns`, since 1970. Never blocks. Pipeline thread. */
void event_export_add(struct event_export *e, const struct node_event *event, uint64_t unix_ns);
/* Memory is short: drops and counts the older half of the queue. */
void event_export_trim(struct event_export *e);

void event_export_metrics(const struct event_export *e, struct metric_set *set); /* any thread */
