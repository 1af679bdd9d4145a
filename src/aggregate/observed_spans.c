/* Spans of monitored time; see observed_spans.h. */
#include "aggregate/observed_spans.h"

#include <assert.h>

bool observed_spans_now(const struct observed_spans *o)
{
    return o->count && o->spans[(o->count - 1) % OBSERVED_SPANS_MAX].to_ns == UINT64_MAX;
}

void observed_spans_set(struct observed_spans *o, bool is_observed, uint64_t now_ns)
{
    struct observed_span *last = &o->spans[(o->count - 1) % OBSERVED_SPANS_MAX];
    const bool was_observed = observed_spans_now(o);
    assert(!o->count || now_ns >= (was_observed ? last->from_ns : last->to_ns));
    if (!o->since_ns)
        o->since_ns = now_ns;
    if (is_observed && !was_observed)
        o->spans[o->count++ % OBSERVED_SPANS_MAX] = (struct observed_span){.from_ns = now_ns, .to_ns = UINT64_MAX};
    if (!is_observed && was_observed) {
        last->to_ns = now_ns;
        o->ended_ns += now_ns - last->from_ns;
    }
}

uint64_t observed_spans_within(const struct observed_spans *o, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < o->count && i < OBSERVED_SPANS_MAX; i++) {
        const uint64_t from = o->spans[i].from_ns > from_ns ? o->spans[i].from_ns : from_ns;
        const uint64_t to = o->spans[i].to_ns < to_ns ? o->spans[i].to_ns : to_ns;
        sum += to > from ? to - from : 0;
    }
    return sum;
}

uint64_t observed_spans_sum(const struct observed_spans *o, uint64_t now_ns)
{
    const struct observed_span *last = &o->spans[(o->count - 1) % OBSERVED_SPANS_MAX];
    return o->ended_ns + (observed_spans_now(o) && now_ns > last->from_ns ? now_ns - last->from_ns : 0);
}
