/* Sends what is sampled to a receiver of OTLP: every few seconds the samples since then, as a profile that
 * needs no other (export/otlp_profiles.h), from a thread of its own. The pipeline's thread only fills and
 * hands over; what a receiver does costs at most the oldest profiles that wait for it, counted by reason. */
#pragma once

#include "agent/config.h"
#include "base/cleanup.h"
#include "model/metric.h"
#include "model/sample.h"

struct profile_export;

/* `*ret` is NULL where no receiver is configured. Starts the thread: whoever forks does that before. */
int profile_export_new(const struct config *config, struct profile_export **ret);
/* Nothing will be added any more: what is left is sent meanwhile, for a few seconds at most. */
void profile_export_end(struct profile_export *e);
/* Waits for that, and says what was sent in all. */
void profile_export_free(struct profile_export *e);
DEFINE_FREEP(profile_export)

/* From the pipeline's thread; none of them waits. */
void profile_export_add(struct profile_export *e, const struct sample *s);
void profile_export_tick(struct profile_export *e); /* once a second */
/* Memory is short: the older half of what waits for the receiver is dropped, and counted. */
void profile_export_trim(struct profile_export *e);

void profile_export_metrics(struct profile_export *e, struct metric_set *set); /* any thread */
