/* The slowest request of each route in the last seconds, of a bounded number of routes. Pure functions of their
 * arguments. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct request_record;

#define ROUTE_SLOWEST_ROUTES 256 /* a further route may replace one, whose next request is then its slowest */

struct route_longest {
    uint64_t route;                                 /* route_slowest_key; 0: no route */
    uint64_t period, longest_ns, longest_before_ns; /* durations, in this period and the one before */
};

struct route_slowest {
    struct route_longest routes[ROUTE_SLOWEST_ROUTES];
};

/* A number that requests of the same program, method and route share; never 0. */
uint64_t route_slowest_key(const struct request_record *record);

/* Whether `duration_ns` is longer than every duration that was added for this route in the last 10 to 20 seconds.
 * `now_ns`: CLOCK_MONOTONIC, not decreasing. */
bool route_slowest_is(const struct route_slowest *s, uint64_t route, uint64_t duration_ns, uint64_t now_ns);

/* Adds a request's duration. */
void route_slowest_add(struct route_slowest *s, uint64_t route, uint64_t duration_ns, uint64_t now_ns);
