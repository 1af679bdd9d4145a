/* From a request that was served to its place in the counters and, if it was slow, to a record on the ring. Part of
 * request.bpf.c.
 *
 * No server is so fast that the ring would drown: a process has a budget of records a second (request_choice.h). */
#pragma once

#include "probes/common/sampling.bpf.h"
#include "probes/request/request_caller.bpf.h"
#include "probes/request/request_choice.h"
#include "probes/request/request_threads.bpf.h"

/* The number of bounds that `ns` exceeds. Without a branch: each would double what the verifier has to look at. */
static __always_inline __u64 duration_bucket(__u64 ns)
{
    __u64 v = at_most(ns, 1ULL << 62), bucket = 0;
#define ADD_IF_ABOVE(bound) bucket += ((bound)-v) >> 63;
    REQUEST_BOUNDS(ADD_IF_ABOVE)
#undef ADD_IF_ABOVE
    return bucket;
}

static __always_inline void count(struct request_connection *c, struct request_process *p)
{
    struct request_record *r = &c->r;
    __u64 bucket = at_most(duration_bucket(r->duration_ns), REQUEST_BUCKETS - 1);
    if (!c->counted) {
        __u64 class = at_most((__u64)r->status / 100, REQUEST_CLASSES - 1);
        c->counted_class = class;
        __sync_fetch_and_add(&p->buckets[class][bucket], 1);
        __sync_fetch_and_add(&p->duration_sum_ns[class], r->duration_ns);
        c->counted = true;
    } else {
        __u64 before = at_most(duration_bucket(c->counted_ns), REQUEST_BUCKETS - 1);
        __u64 class = at_most(c->counted_class, REQUEST_CLASSES - 1);
        if (before != bucket) {
            __sync_fetch_and_add(&p->buckets[class][before], -1);
            __sync_fetch_and_add(&p->buckets[class][bucket], 1);
        }
        __sync_fetch_and_add(&p->duration_sum_ns[class], r->duration_ns - c->counted_ns);
    }
    c->counted_ns = r->duration_ns;
}

/* The reader comes by itself four times a second, and is called when a quarter is full: a call is an interrupt to the
 * CPU that serves. */
static __always_inline __u64 ring_wakeup(void)
{
    return bpf_ringbuf_query(&request_ring, BPF_RB_AVAIL_DATA) > ring_bytes / 4 ? BPF_RB_FORCE_WAKEUP
                                                                                : BPF_RB_NO_WAKEUP;
}

/* The thread's traced work meanwhile is the request's only if the thread was with this request alone. A record that is
 * sent again keeps its link where nothing is known any more. A function, so that its stack is not added to the stack of
 * sending: 512 bytes are all that they and their callers have. */
static __noinline int link_record(struct request_connection *c)
{
    const struct link_ids none = {0};
    struct request_record *r = &c->r;

    if (c->shared ||
        link_of_span(r->h.pid, r->h.tid, r->start_ns + r->unread_ns, r->h.time_ns, &r->link) == LINK_SEVERAL)
        r->link = none;
    return 0;
}

static __noinline int send_record(struct request_connection *c)
{
    struct request_record *r = &c->r;
    r->h.size_bytes = sizeof(*r);
    r->h.time_ns = last_sent_ns(c);
    if (links)
        link_record(c);
    if (wants_callers)
        send_caller(c, ring_wakeup());
    if (bpf_ringbuf_output(&request_ring, r, sizeof(*r), ring_wakeup()) < 0)
        lose(REQUEST_LOSS_RING_FULL);
    c->recorded_ns = r->duration_ns;
    return 0;
}

/* Does the request get a record, or a newer one? */
static __always_inline bool is_to_be_recorded(struct request_connection *c, struct request_process *p, bool first,
                                              __u64 now, bool last)
{
    __u64 duration = c->r.duration_ns, recorded = c->recorded_ns;
    if (!c->r.line_bytes && !(c->r.flags & REQUEST_PIPELINED)) /* another protocol since */
        return false;
    if (!(c->r.flags & REQUEST_NOTABLE) &&
        request_is_notable(p, duration, !c->r.status || c->r.status >= 500, now, records_a_window))
        c->r.flags |= REQUEST_NOTABLE;
    if (recorded) /* it went on after its record */
        return duration >= recorded + (recorded >> 2) || (last && duration > recorded);
    if (first)
        c->r.weight = request_sample_weight(p, sampling_random(c->r.id));
    if (c->r.flags & REQUEST_NOTABLE || c->r.weight) {
        if (!first)
            lose_not(REQUEST_LOSS_NOT_DETAILED);
        return true;
    }
    if (first)
        lose(REQUEST_LOSS_NOT_DETAILED);
    return false;
}

/* Nothing was sent for a while, or (`last`) nothing more can come: counts, corrects premature counts,
 * records. A global function, so that it is verified once and not at every place that calls it; that is why it takes a
 * number. */
__noinline int publish(__u64 number, __u64 now, int last)
{
    struct request_connection *c = connection_find(number);
    if (!c)
        return 0;
    struct request_process *p = process_find(c);
    if (!p) {
        lose(REQUEST_LOSS_MAP_FULL);
        c->dirty = false;
        return 0;
    }
    bool first = !c->counted;
    if (c->dirty)
        count(c, p);
    p->last_ns = now;
    if (is_to_be_recorded(c, p, first, now, last))
        send_record(c);
    c->dirty = false; /* at last: from now on the connection need not be held */
    return 0;
}

/* Nothing more can come of a request that was replied to. */
static __always_inline void publish_last(struct request_connection *c, __u64 now)
{
    if (c->dirty || c->recorded_ns)
        publish(c->number, now, true);
}
