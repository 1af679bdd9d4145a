/* Spans of CLOCK_MONOTONIC during which monitoring was enabled; distinguishes "no samples" from "not monitored". Plain
 * data; the oldest spans are overwritten. The budget enables and disables monitoring rarely: sixteen spans reach back
 * further than any window. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OBSERVED_SPANS_MAX 16

struct observed_span {
    uint64_t from_ns, to_ns; /* UINT64_MAX: still enabled */
};

struct observed_spans {
    uint64_t since_ns;                              /* time of the first observed_spans_set; 0: never called */
    struct observed_span spans[OBSERVED_SPANS_MAX]; /* span N is at index N modulo OBSERVED_SPANS_MAX */
    uint64_t count;                                 /* of all spans ever begun */
    uint64_t ended_ns;                              /* total length of all finished spans */
};

/* Monitoring is enabled or disabled from `now_ns` on, which must not decrease from call to call. A call that repeats
 * the present state has no effect. */
void observed_spans_set(struct observed_spans *o, bool is_observed, uint64_t now_ns);

/* Whether it is enabled since the last observed_spans_set. */
bool observed_spans_now(const struct observed_spans *o);

/* How much of [from_ns, to_ns) was monitored. */
uint64_t observed_spans_within(const struct observed_spans *o, uint64_t from_ns, uint64_t to_ns);

/* The total monitored time until `now_ns`. */
uint64_t observed_spans_sum(const struct observed_spans *o, uint64_t now_ns);
