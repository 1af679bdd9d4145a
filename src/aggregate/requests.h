/* The requests of the last minutes: the slowest with all their details, the baseline of each route, and counts of all
 * recorded by service, method and status. Bounded. Thread-safe: the pipeline adds, HTTP threads take snapshots. */
#pragma once

#include "aggregate/request_totals.h"
#include "base/cleanup.h"
#include "model/metric.h"
#include "model/request.h"
#include "model/request_route.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUESTS_KEPT_SECONDS 300

struct requests;

/* Keeps requests of at most `max_bytes`; counts have a bound of their own. The caller frees `*ret`. -ENOMEM. */
int requests_new(size_t max_bytes, struct requests **ret);
/* Changes `max_bytes`: drops requests, which count as dropped, until the rest fits. */
void requests_limit(struct requests *r, size_t max_bytes);
void requests_free(struct requests *r);
DEFINE_FREEP(requests)

/* Takes ownership of `request`, also on failure. Replaces a kept request with the same id. -ENOSPC: it is not
 * kept, as the kept requests of its route in the same ten seconds are slower. */
int requests_add(struct requests *r, struct request *request);

/* Sets `request->usual`: the baseline of its route as of now. */
void requests_set_usual(struct requests *r, struct request *request);

/* Returns copies of at most `max` of the slowest requests that ended at `since_ns` (CLOCK_MONOTONIC) or later, slowest
 * first, with their baselines; `abnormal`: only requests that failed or are slow for their route. The caller frees
 * each with request_free, and the array. -ENOMEM. */
int requests_slowest(struct requests *r, uint64_t since_ns, size_t max, bool abnormal, struct request ***ret,
                     size_t *ret_count);

/* Returns a copy of the example of a route's cause; if that is not kept, of another request of the cause, or of its
 * kind, that ended at `since_ns` or later. The caller frees it. -ENOENT: none is kept; -ENOMEM. */
int requests_example(struct requests *r, uint64_t since_ns, const struct request_route *route, size_t cause,
                     struct request **ret);

/* Returns, for each cause of each route of [since_ns, now_ns) (request_route.h), a copy of its example, with `group`
 * set: most time lost first, then the routes that took most time. A cause without a kept example is added to another
 * one of its route; to no other, and left out, if no abnormal request of the route is kept. Returns at most `max`
 * examples; `abnormal`: only causes of requests that failed or are slow. The caller frees each example, and the array.
 * -ENOMEM. */
int requests_groups(struct requests *r, uint64_t since_ns, uint64_t now_ns, size_t max, bool abnormal,
                    struct request ***ret, size_t *ret_count);

/* Calls one of the two functions above, as selected by `which`. */
int requests_choose(struct requests *r, uint64_t since_ns, uint64_t now_ns, enum request_choice which, size_t max,
                    struct request ***ret, size_t *ret_count);

/* Requests are recorded, or not, from `now_ns` on (CLOCK_MONOTONIC, must not decrease from call to call). Without any
 * call they always are. */
void requests_observe(struct requests *r, bool is_observed, uint64_t now_ns);

/* How much of [since, now) requests were recorded: `*ret_first_ns`: since when requests_observe has been called (0:
 * never);
 * `*ret_is_observed`: whether they are recorded now. */
uint64_t requests_observed(struct requests *r, uint64_t since_ns, uint64_t now_ns, uint64_t *ret_first_ns,
                           bool *ret_is_observed);

/* The routes with requests that ended in [since, now): see request_routes_list. */
int requests_routes(struct requests *r, uint64_t since_ns, uint64_t now_ns, struct request_route **ret,
                    size_t *ret_count);

/* See request_routes_totals. */
void requests_totals(struct requests *r, uint64_t since_ns, struct request_totals *ret);

void requests_metrics(struct requests *r, struct metric_set *set);
