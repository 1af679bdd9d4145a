/* When somebody looked: spans of CLOCK_MONOTONIC, so that "nothing was there" can be told from "nobody looked". Plain
 * data; of many spans the oldest go. The budget does not end and begin them often: sixteen reach back further than any
 * window does. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OBSERVED_SPANS_MAX 16

struct observed_span {
    uint64_t from_ns, to_ns; /* UINT64_MAX: it goes on */
};

struct observed_spans {
    uint64_t since_ns;                              /* when it was first told whether somebody looks; 0: never */
    struct observed_span spans[OBSERVED_SPANS_MAX]; /* number N stands at N modulo the number of them */
    uint64_t count;                                 /* begun */
    uint64_t ended_ns;                              /* of all that have ended */
};

/* From `now_ns` on it is looked, or not; times do not go back. */
void observed_spans_set(struct observed_spans *o, bool is_observed, uint64_t now_ns);

/* How much of [from_ns, to_ns) was looked at. */
uint64_t observed_spans_within(const struct observed_spans *o, uint64_t from_ns, uint64_t to_ns);

/* Of all time until `now_ns`. */
uint64_t observed_spans_sum(const struct observed_spans *o, uint64_t now_ns);
