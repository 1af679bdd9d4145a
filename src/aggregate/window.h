/* Profiles of the last minutes, of one type of samples, in slots of a few seconds that are dropped as a whole when they
 * expire: memory is bounded and returned, and any span of slots can be merged into one profile. Separately bounded, the
 * time of each sample to 20 ms (slot_detail.h): when that memory is full, the oldest detail is dropped and reported as
 * missing. Thread-safe: the pipeline adds, HTTP threads take snapshots. */
#pragma once

#include "base/cleanup.h"
#include "model/heatmap.h"
#include "model/hotspots.h"
#include "model/profile.h"

#include <stdint.h>

struct window;

struct window_options {
    uint64_t slot_ns;               /* 5 s */
    uint32_t slots;                 /* 24: two minutes */
    const struct sample_type *type; /* borrowed */
    uint64_t period;                /* the sampling period; see struct profile */
    size_t max_bytes; /* of all slots together: the oldest slots give way. One slot takes at most a quarter, and counts
                       * the samples that it drops. 0: unbounded */
    size_t detail_max_bytes; /* additional memory for the 20 ms detail; 0: not kept. Otherwise slot_ns must be a
                              * multiple of 20 ms, at most 256 of them */
};

/* Copies `options`; the caller frees `*ret`. -EINVAL: slots are 0 or more than 10000, or their length does not fit as
 * stated above; -ENOMEM. */
int window_new(const struct window_options *options, struct window **ret);
void window_free(struct window *w);
DEFINE_FREEP(window)

const struct sample_type *window_type(const struct window *w);

/* Monitoring is enabled or disabled from `now_ns` on, which must not decrease from call to call; spans and regions then
 * report how much of them was monitored. If this is never called, monitoring is assumed since the first sample. */
void window_observe(struct window *w, bool is_observed, uint64_t now_ns);
/* Sets start, duration and not_observed_ns of a profile of [from_ns, to_ns). Spans and regions have them set already
 * for the requested time. */
void window_set_observed(struct window *w, uint64_t from_ns, uint64_t to_ns, struct profile *p);
/* The total monitored time until `now_ns`. */
uint64_t window_observed_ns(struct window *w, uint64_t now_ns);

/* Changes detail_max_bytes of a window that keeps detail: drops the oldest until the rest fits. */
void window_limit_detail(struct window *w, size_t max_bytes);

/* Changes max_bytes. Returns how many slots with samples it drops, the oldest, until the rest fits; later queries
 * report their time as not kept. The thread of window_add. */
uint32_t window_limit(struct window *w, size_t max_bytes);

/* Adds a sample of the window's type to the slot of its time. Late samples go to the oldest slot that is kept.
 * Copies the sample. Returns like profile_add; -ENOSPC: the slot is full. */
int window_add(struct window *w, const struct sample *s);

/* The queries: of samples that match `filter` (NULL: all; its type is ignored). On success the caller frees `*ret`.
 * They lock one slot at a time, so that the pipeline waits for none of them for long. All may fail with -ENOMEM. */

/* Returns the samples of [from_ns, to_ns) (CLOCK_MONOTONIC), extended to whole slots; an empty profile if there are
 * none. */
int window_snapshot(struct window *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                    struct profile **ret);

/* Returns the samples of [from_ns, to_ns), extended to whole slots of 20 ms. -ENODATA: samples of part of that time
 * are no longer kept, or not to 20 ms, or all of it is before monitoring began. */
int window_region(struct window *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                  struct profile **ret);

/* Returns the same time by slots of 20 ms, extended to whole seconds and limited to the kept slots; its sums equal
 * the sums of the region's profile. Its `now_ns` is not set. */
int window_heatmap(struct window *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   struct heatmap **ret);

/* Returns functions over the same time, by windows of slot_ns, extended to whole windows and limited to the kept slots.
 * Its `now_ns` is not set. */
int window_hotspots(struct window *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                    const struct hotspots_options *options, struct hotspots **ret);

/* Memory is short: drops the older half of the slots. Later queries report that time as not kept. */
void window_trim(struct window *w);

size_t window_bytes(struct window *w);

struct window_stats {
    uint64_t bytes;
    uint64_t slots, stacks;          /* slots with samples; distinct stacks, summed over slots */
    uint64_t on_time, late, dropped; /* samples */
    uint64_t details_dropped;        /* slots */
};

/* Adds the statistics of this window to `to`. */
void window_add_stats(struct window *w, struct window_stats *to);
