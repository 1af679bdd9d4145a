/* Profiles of the last minutes, in slots of a few seconds that are dropped as a whole when they expire: memory is
 * bounded and returned, and any span of slots can be merged into one profile. Separately bounded, the time of each
 * sample to 20 ms (slot_detail.h): when that memory is full, the oldest detail is dropped and reported as missing.
 * Thread-safe: the pipeline adds, HTTP threads take snapshots. */
#pragma once

#include "base/cleanup.h"
#include "model/heatmap.h"
#include "model/hotspots.h"
#include "model/metric.h"
#include "model/profile.h"

#include <stdint.h>

struct windows;

struct windows_options {
    uint64_t slot_ns; /* 5 s */
    uint32_t slots;   /* 24: two minutes */
    const struct sample_type *type;
    uint64_t period;  /* the sampling period; see struct profile */
    size_t max_bytes; /* of all slots together; a full slot counts what it drops (next_max_bytes in windows.c). 0:
                       * unbounded */
    size_t detail_max_bytes; /* additional memory for the 20 ms detail; 0: not kept. Otherwise slot_ns must be a
                              * multiple of 20 ms, at most 256 of them */
};

int windows_new(const struct windows_options *options, struct windows **ret);
void windows_free(struct windows *w);
DEFINE_FREEP(windows)

/* Monitoring is enabled or disabled from `now_ns` on; spans and regions then report how much of them was monitored.
 * If this is never called, monitoring is assumed since the first sample. */
void windows_observe(struct windows *w, bool is_observed, uint64_t now_ns);
/* Sets start, duration and not_observed_ns of a profile of [from_ns, to_ns). Spans and regions have them set already
 * for the requested time. */
void windows_set_observed(struct windows *w, uint64_t from_ns, uint64_t to_ns, struct profile *p);
/* The total monitored time until `now_ns`. */
uint64_t windows_observed_ns(struct windows *w, uint64_t now_ns);

/* Adds a sample to the slot of its time. Late samples go to the oldest slot that is kept; -ENOSPC: the slot is full. */
int windows_add(struct windows *w, const struct sample *s);

/* Returns the samples of [from_ns, to_ns) (CLOCK_MONOTONIC), extended to whole slots, as a new profile that the
 * caller owns. */
int windows_snapshot(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                     struct profile **ret);

/* Returns the samples of [from_ns, to_ns), extended to whole slots of 20 ms. -ENODATA: samples of part of that time
 * are no longer kept, or not to 20 ms, or all of it is before monitoring began. */
int windows_region(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   struct profile **ret);

/* Returns the same time by slots of 20 ms, extended to whole seconds and limited to what is kept; its sums equal
 * those of the region's profile. Its `now_ns` is not set. */
int windows_heatmap(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                    struct heatmap **ret);

/* Returns functions over the same time, by windows of slot_ns, extended to whole windows and limited to what is kept.
 * Its `now_ns` is not set. */
int windows_hotspots(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                     const struct hotspots_options *options, struct hotspots **ret);

/* Memory is short: drops the older half of the slots. Later queries report that time as not kept. */
void windows_trim(struct windows *w);

size_t windows_bytes(struct windows *w);
/* Adds the metrics of all these windows together. */
void windows_metrics(struct windows *const *windows, size_t count, struct metric_set *set);
