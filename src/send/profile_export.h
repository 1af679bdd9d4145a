/* Exports profiles to an OTLP receiver: every interval, the samples of that interval as a self-contained profile
 * (export/otlp_profiles.h), sent by a thread of its own. The pipeline thread only fills and queues profiles. A slow
 * or failing receiver costs at most the oldest queued profiles, counted by reason. */
#pragma once

#include "base/cleanup.h"
#include "config/config.h"
#include "model/memory_plan.h"
#include "model/metric.h"
#include "model/sample.h"
#include "send/export_io.h"

struct profile_export;

/* `*ret` is NULL if no receiver is configured, or no samples are. `io` NULL: libcurl and the system clock. `config` and
 * `memory` are copied as far as needed; the caller frees `*ret`. -errno: the receiver's settings are unusable (logged);
 * -ENOMEM. */
int profile_export_new(const struct config *config, const struct memory_plan *memory, const struct export_io *io,
                       struct profile_export **ret);
/* Starts the sender thread, once. Forks must happen before. -errno: there is no thread, and nothing is sent. */
int profile_export_start(struct profile_export *e);
/* Sends the queued profiles, without waiting for more. For tests, which start no thread. */
void profile_export_send_queued(struct profile_export *e);
/* Ends the export: queues the current profiles and lets the sender thread deliver for a few seconds at most. Does not
 * wait. Pipeline thread; accepts NULL. A second call changes nothing. */
void profile_export_end(struct profile_export *e);
/* Waits for the sender thread, and logs the totals. */
void profile_export_free(struct profile_export *e);
DEFINE_FREEP(profile_export)

/* Called on the pipeline thread; they never block. Samples that they cannot keep are counted as dropped. */
void profile_export_add(struct profile_export *e, const struct sample *s);
void profile_export_tick(struct profile_export *e); /* once a second */
/* Memory is short: drops and counts the older half of the queue. */
void profile_export_trim(struct profile_export *e);

void profile_export_metrics(struct profile_export *e, struct metric_set *set); /* any thread */
