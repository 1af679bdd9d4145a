/* Counts events by second; see event_rate.h. */
#include "signals/event_rate.h"

#define EVENTS_A_SECOND 20
#define SECOND_NS       1000000000ull

bool event_rate_allows(struct event_rate *r, uint64_t time_ns)
{
    if (time_ns / SECOND_NS != r->second) {
        r->second = time_ns / SECOND_NS;
        r->events = 0;
    }
    return r->events++ < EVENTS_A_SECOND;
}
