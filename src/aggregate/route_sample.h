/* How many of a route's sampled requests enter its ring: all until it is full, then as few as are needed for the ring
 * to reach back for half a minute. Otherwise the ring of a busy route would only have the last seconds, and after a few
 * slow seconds slow requests would be its baseline. Plain data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ROUTE_SAMPLE_WINDOW                                                                                            \
    8u /* requests in 1.07 s that enter a full ring: at least half as many if there are more                           \
        */

struct route_sample {
    uint64_t window; /* of 2^30 ns */
    uint32_t window_requests, window_entered, shift;
};

/* Returns the weight of a sampled request that ended at `end_ns` and has the weight `weight`: 0, or as many times more
 * as its probability to enter is smaller, so that sums by weight stay right on average. The same for the same `id`
 * while the probability is. */
uint32_t route_sample_weight(struct route_sample *s, uint64_t id, uint64_t end_ns, uint32_t weight, bool is_full);
