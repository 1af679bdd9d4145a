/* Sends what is sampled to a receiver of OTLP: every few seconds the samples since then, as a profile that
 * needs no other (export/otlp_profiles.h), from a thread of its own. The pipeline's thread only fills and
 * hands over; what a receiver does costs at most the oldest profiles that wait for it, counted by reason. */
#pragma once

#include "agent/config.h"
#include "base/cleanup.h"
#include "model/metric.h"
#include "model/sample.h"

#include "otlp/transport.h"

struct profile_export;

/* The receiver and the clock; tests replace both. All is borrowed. */
struct profile_export_io {
    const struct otlp_transport *transport;
    uint64_t (*now_ns)(void *argument); /* CLOCK_MONOTONIC; no other clock decides anything */
    /* Waits, on the sending thread. False: profile_export_end was called. */
    bool (*pause)(void *argument, unsigned ms);
    void *argument;
};

/* `*ret` is NULL where no receiver is configured. `io` NULL: libcurl and the system's clock. */
int profile_export_new(const struct config *config, const struct profile_export_io *io, struct profile_export **ret);
/* Starts the sending thread: a process that forks does so before. */
int profile_export_start(struct profile_export *e);
/* What the sending thread does, once, without waiting for more: sends what is queued. For tests, which start
 * no thread. */
void profile_export_send_queued(struct profile_export *e);
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
