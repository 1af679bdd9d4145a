/* The last minutes of profile, in slots of a few seconds that are dropped whole when they age: memory is bounded and given back,
 * and any span of slots can be merged into one profile. Thread-safe: the pipeline adds, HTTP threads take snapshots. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/profile.h"

#include <stdint.h>

struct windows;

struct windows_options {
    uint64_t slot_ns;   /* 5 s */
    uint32_t slots;     /* 24: two minutes */
    uint64_t period_ns; /* of the sampling */
    size_t max_bytes;   /* all slots together; a slot is full at its share, and counts what it drops */
};

int windows_new(const struct windows_options *options, struct windows **ret);
void windows_free(struct windows *w);
DEFINE_FREEP(windows)

/* Into the slot of the sample's time. Late ones go to the oldest slot that is kept; -ENOSPC when full. */
int windows_add(struct windows *w, const struct sample *s);

/* The samples of [from_ns, to_ns) (CLOCK_MONOTONIC), whole slots, as a new profile for the caller. */
int windows_snapshot(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                     struct profile **ret);

/* Gives back the older half of what is held: memory is short. Spans say so afterwards. */
void windows_trim(struct windows *w);

size_t windows_bytes(struct windows *w);
void windows_metrics(struct windows *w, struct metric_set *set);
