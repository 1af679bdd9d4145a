/* Limits how many events of one kind are emitted: further ones in the same second are not. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: none yet. */
struct event_rate {
    uint64_t second; /* of the latest event, CLOCK_MONOTONIC */
    unsigned events; /* in that second */
};

/* Whether an event of this time may be emitted. It then counts. */
bool event_rate_allows(struct event_rate *r, uint64_t time_ns);
