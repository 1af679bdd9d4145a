/* A histogram of durations whose buckets are at most 1/128 of their value wide, so that a percentile is off by at
 * most 0.4 %, whatever the range. Negative durations (an overhead can be negative: clocks of two threads,
 * overlapping work) have buckets of their own. Memory is allocated per power of two that occurs, 1 KiB each. */
#pragma once

#include "base/cleanup.h"

#include <stdint.h>

struct duration_histogram;

/* An empty histogram; the caller frees `*ret`. -ENOMEM. */
int duration_histogram_new(struct duration_histogram **ret);
void duration_histogram_free(struct duration_histogram *h);
DEFINE_FREEP(duration_histogram)

/* Counts one duration. -ENOMEM: it is not counted. */
int duration_histogram_add(struct duration_histogram *h, int64_t duration_ns);

/* The duration that `percentile` (0 to 100) percent of them do not exceed, by nearest rank; 0 when empty. Clamped to
 * the range of the durations added. */
int64_t duration_histogram_percentile(const struct duration_histogram *h, double percentile);
