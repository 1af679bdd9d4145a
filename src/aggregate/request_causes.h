/* The time that a route's slow requests lost, by cause. The requests of a cause, and their lost time, are sums
 * over the recorded requests, scaled by their weights, so that the causes of a route add up to the route. Pure. */
#pragma once

#include "aggregate/request_entries.h"
#include "model/request_route.h"

/* A recorded request that failed or is slow; any request of a route without a known median. */
struct caused_request {
    const struct request_entry *entry;
    double scale; /* period / part of the period that its ring still has requests from; at least 1 */
    bool is_slow;
    double stands; /* the number of requests that it stands for; set by request_causes_fill */
};

/* Sets lost_ns, lost_is_estimate, causes and cause_count of `route` from these requests, and their `stands`.
 * `usual_ns`: the median of the route; 0: not known. Causes are sorted by their time lost; without a median, no time is
 * lost, and they are sorted by the time that their requests took. Small causes are added to the largest of their kind.
 *
 * A notable request (request.is_notable) stands for itself: all of its sort have a record. Any other one is in the
 * random sample, and stands for as many as its weight says. Both times its scale. */
void request_causes_fill(struct caused_request *caused, size_t count, uint64_t usual_ns, struct request_route *route);
