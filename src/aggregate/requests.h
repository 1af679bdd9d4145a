/* The requests of the last minutes: the slowest, whole, and counts of all by service, method and status. Bounded.
 * Thread-safe: the pipeline adds, HTTP threads take snapshots. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/request.h"

#include <stddef.h>
#include <stdint.h>

#define REQUESTS_KEPT_SECONDS 300

struct requests;

int requests_new(size_t max_bytes, struct requests **ret);
void requests_free(struct requests *r);
DEFINE_FREEP(requests)

/* Takes `request` (also on failure). One with the id of a request that is kept takes its place. -ENOSPC: all that are
 * kept of its time are slower. */
int requests_add(struct requests *r, struct request *request);

/* The slowest that ended at `since_ns` (CLOCK_MONOTONIC) or later, slowest first: copies for the caller to free (array
 * and each). */
int requests_slowest(struct requests *r, uint64_t since_ns, size_t max, struct request ***ret, size_t *ret_count);

void requests_metrics(struct requests *r, struct metric_set *set);
