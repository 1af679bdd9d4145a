/* Durations in buckets whose width is at most 1/128 of their value, so that a percentile is off by no more than 0.4 %,
 * whatever the spread. Durations below zero (an overhead can be: clocks of two threads, work that overlaps) have
 * buckets of their own. Memory comes with the powers of two that occur, 1 KiB for each. */
#pragma once

#include "base/cleanup.h"

#include <stdint.h>

struct duration_histogram;

int duration_histogram_new(struct duration_histogram **ret);
void duration_histogram_free(struct duration_histogram *h);
DEFINE_FREEP(duration_histogram)

/* -ENOMEM. */
int duration_histogram_add(struct duration_histogram *h, int64_t duration_ns);

/* The duration that `percentile` (0 to 100) of them do not exceed, by nearest rank; 0 of none. Bounded by what really
 * occurred. */
int64_t duration_histogram_percentile(const struct duration_histogram *h, double percentile);
