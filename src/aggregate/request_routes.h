/* Usual durations of requests by service, method and route, and the durations of slow requests: the latest of them,
 * from the last REQUESTS_KEPT_SECONDS. Only requests of the random sample (request.weight) make the baseline; the
 * others have a record because they are slow or failed. Bounded. Not thread-safe: struct requests has the lock. */
#pragma once

#include "aggregate/observed_spans.h"
#include "aggregate/request_totals.h"
#include "base/cleanup.h"
#include "model/request_route.h"

#include <stddef.h>
#include <stdint.h>

#define REQUEST_ROUTES_MAX     64  /* at a time; further ones are added to the route "other" of the service "other" */
#define REQUEST_ROUTES_SERVICE 32  /* of one service; further ones are added to its route "other" */
#define REQUEST_ROUTES_SAMPLE  256 /* requests of a route's sample; the latest that enter (route_sample.h) */
#define REQUEST_ROUTES_SLOW    64  /* other slow requests of a route; the latest */
#define REQUEST_ROUTES_FAILED  64  /* other failed requests of a route; the latest */

struct request_routes;

/* The caller frees `*ret`. -ENOMEM. */
int request_routes_new(struct request_routes **ret);
void request_routes_free(struct request_routes *r);
DEFINE_FREEP(request_routes)

/* Adds a request, or replaces an earlier record of it. Without memory the request is left out. Returns its
 * request_cause_key, compared with the present baseline of its route; 0: it has no route. */
uint32_t request_routes_add(struct request_routes *r, const struct request *request);

/* Returns the baseline of the route of `request`; zeros if too few requests are known, and for the route "other". */
struct request_usual request_routes_usual(struct request_routes *r, const struct request *request);

/* [since, now) of CLOCK_MONOTONIC, and when in it requests were recorded; NULL: always. */
struct request_routes_period {
    uint64_t since_ns, now_ns;
    const struct observed_spans *observed;
};

/* The routes with requests that ended in the period, the most time lost first, then the most time taken; `cause` is not
 * set. The caller frees `*ret`. -ENOMEM. */
int request_routes_list(const struct request_routes *r, const struct request_routes_period *period,
                        struct request_route **ret, size_t *ret_count);

/* Sums over all routes, of the requests that ended at `since_ns` or later. */
void request_routes_totals(const struct request_routes *r, uint64_t since_ns, struct request_totals *ret);

size_t request_routes_count(const struct request_routes *r);
size_t request_routes_bytes(const struct request_routes *r);
uint64_t request_routes_overflowed(const struct request_routes *r); /* requests that were added to a route "other" */
