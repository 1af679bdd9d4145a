/* The requests of the last minutes: the slowest with all their details, and counts of all by service, method and
 * status. Bounded. Thread-safe: the pipeline adds, HTTP threads take snapshots. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/request.h"

#include <stddef.h>
#include <stdint.h>

#define REQUESTS_KEPT_SECONDS 300

struct requests;

/* Keeps requests of at most `max_bytes`; counts have a bound of their own. The caller frees `*ret`. -ENOMEM. */
int requests_new(size_t max_bytes, struct requests **ret);
void requests_free(struct requests *r);
DEFINE_FREEP(requests)

/* Takes ownership of `request`, also on failure. Replaces a kept request with the same id. -ENOSPC: all kept requests
 * of its slot are slower. */
int requests_add(struct requests *r, struct request *request);

/* Returns copies of at most `max` of the slowest requests that ended at `since_ns` (CLOCK_MONOTONIC) or later, slowest
 * first. The caller frees each with request_free, and the array. -ENOMEM. */
int requests_slowest(struct requests *r, uint64_t since_ns, size_t max, struct request ***ret, size_t *ret_count);

void requests_metrics(struct requests *r, struct metric_set *set);
