/* The time that a route's abnormal requests lost, by cause. The requests of a cause, and their lost time, are sums
 * over the recorded requests, scaled by their weights, so that the causes of a route add up to the route. Pure. */
#pragma once

#include "aggregate/request_entries.h"
#include "model/request_route.h"

/* A recorded request that failed or is slow. */
struct abnormal_request {
    const struct request_entry *entry;
    double scale;  /* period / part of the period that its ring still has requests from; at least 1 */
    bool is_slow;  /* else it failed only */
    double stands; /* the number of requests that it stands for; set by request_causes_fill */
};

/* Sets lost_ns, lost_is_estimate, causes and cause_count of `route` from its abnormal requests, and their `stands`.
 * `usual_ns`: the median of the route; 0: not known, and no time is lost. Small causes are added to the largest of
 * their kind.
 *
 * Every recorded request stands for itself (times its scale), unless the random sample shows that more were abnormal
 * than were recorded: by more than twice its standard error. Then those in the sample stand for as many as their weight
 * says, and the others for none. That is decided for the failed requests and for the other slow ones separately. */
void request_causes_fill(struct abnormal_request *abnormal, size_t count, uint64_t usual_ns,
                         struct request_route *route);
