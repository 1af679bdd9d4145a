/* The last minutes of profile, in slots of a few seconds that are dropped whole when they age: memory is bounded and
 * given back, and any span of slots can be merged into one profile. Beside it, in memory of its own, when each sample
 * was, to 20 ms (slot_detail.h): where that gets short the oldest goes first, and is told as gone. Thread-safe: the
 * pipeline adds, HTTP threads take snapshots. */
#pragma once

#include "base/cleanup.h"
#include "model/heatmap.h"
#include "model/hotspots.h"
#include "model/metric.h"
#include "model/profile.h"

#include <stdint.h>

struct windows;

struct windows_options {
    uint64_t slot_ns;   /* 5 s */
    uint32_t slots;     /* 24: two minutes */
    uint64_t period_ns; /* of the sampling; 0: of waits */
    enum profile_time time;
    size_t max_bytes; /* all slots together; a slot that is full counts what it drops (next_max_bytes in windows.c). 0:
                         no bound */
    size_t detail_max_bytes; /* of the 20 ms of samples, besides; 0: they are not kept. Then a slot is whole 20 ms, 256
                                at most */
};

int windows_new(const struct windows_options *options, struct windows **ret);
void windows_free(struct windows *w);
DEFINE_FREEP(windows)

/* From `now_ns` on somebody looks, or nobody does: spans and regions then say how much of them was looked at. Where it
 * is never said that is all since the first sample. */
void windows_observe(struct windows *w, bool is_observed, uint64_t now_ns);
/* Start, duration and not_observed_ns of a profile of [from_ns, to_ns): spans and regions have them already, of all
 * that they were asked for. */
void windows_set_observed(struct windows *w, uint64_t from_ns, uint64_t to_ns, struct profile *p);
/* How long somebody has looked until `now_ns`. */
uint64_t windows_observed_ns(struct windows *w, uint64_t now_ns);

/* Into the slot of the sample's time. Late ones go to the oldest slot that is kept; -ENOSPC when full. */
int windows_add(struct windows *w, const struct sample *s);

/* The samples of [from_ns, to_ns) (CLOCK_MONOTONIC), whole slots, as a new profile for the caller. */
int windows_snapshot(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                     struct profile **ret);

/* The samples of [from_ns, to_ns), outwards to whole slots of 20 ms. -ENODATA: of a part of that time samples are no
 * longer kept, or not so exactly, or all of it was before anybody looked. */
int windows_region(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   struct profile **ret);

/* The same time by slots of 20 ms, outwards to whole seconds and of what is kept; its sums are those of the region's
 * profile. `now_ns` of it is not set. */
int windows_heatmap(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                    struct heatmap **ret);

/* Functions over the same time, by windows of slot_ns: outwards to whole ones, and of what is kept. `now_ns` of it is
 * not set. */
int windows_hotspots(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                     const struct hotspots_options *options, struct hotspots **ret);

/* Gives back the older half of what is held: memory is short. Spans say so afterwards. */
void windows_trim(struct windows *w);

size_t windows_bytes(struct windows *w);
/* Of all of them together. */
void windows_metrics(struct windows *const *windows, size_t count, struct metric_set *set);
