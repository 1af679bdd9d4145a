/* From a request that was served to its place in the counters and, if it was slow, to a record on the ring. Part of
 * request.bpf.c.
 *
 * No server is so fast that the ring would drown: a process has a budget of records a second (request_choice.h). */
#pragma once

#include "probes/common/sampling.bpf.h"
#include "probes/request/request_caller.bpf.h"
#include "probes/request/request_choice.h"
#include "probes/request/request_stream.bpf.h"
#include "probes/request/request_threads.bpf.h"

/* The number of bounds that `ns` exceeds. It has no branches, because each would double the verifier's work. It is a
 * global function, because the bounds of two inlined copies would not fit on the stack (link_record), and the verifier
 * checks it once. */
__noinline __u64 duration_bucket(__u64 ns)
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

static __noinline int send_stream(struct request_connection *c, struct request_stream *st, bool has_ended)
{
    struct request_stream_record *s = bpf_ringbuf_reserve(&request_ring, sizeof(*s), 0);
    const struct request_record *r = &c->r;
    const bool is_stream = stream_state(c) == STREAM_FOUND,
               is_unread = st->unread_sends || st->scan.place == STREAM_PLACE_LOST;
    if (!s) {
        lose(REQUEST_LOSS_RING_FULL);
        return 0;
    }
    __builtin_memset(s, 0, offsetof(struct request_stream_record, comm));
    s->h.kind = RECORD_REQUEST_STREAM;
    s->h.size_bytes = sizeof(*s);
    s->h.time_ns = last_sent_ns(c);
    s->h.pid = r->h.pid;
    s->h.tid = r->h.tid;
    s->id = r->id;
    s->cgroup_id = r->cgroup_id;
    s->start_ns = r->start_ns;
    s->duration_ns = r->duration_ns;
    s->status = r->status;
    s->local_port = r->local_port;
    if (is_stream) {
        s->first_byte_ns = st->first_byte_ns;
        s->first_ns = st->first_ns;
        s->last_ns = st->last_ns;
        s->chunks = st->scan.chunks;
        s->tokens = st->scan.tokens;
        s->usage = st->scan.usage;
        s->flags = REQUEST_STREAM_EVENTS | st->flags | (is_unread ? REQUEST_STREAM_UNREAD : 0);
    }
    s->flags |= has_ended ? REQUEST_STREAM_ENDED : 0;
    s->line_bytes = r->line_bytes;
    s->model_bytes = at_most(st->scan.model_bytes, REQUEST_MODEL_BYTES - 1);
    __builtin_memcpy(s->comm, r->comm, sizeof(s->comm));
    __builtin_memcpy(s->model, st->scan.model, sizeof(s->model));
    s->model[table_index(s->model_bytes, REQUEST_MODEL_BYTES - 1)] = 0;
    __builtin_memcpy(s->line, r->line, sizeof(s->line));
    bpf_ringbuf_submit(s, ring_wakeup());
    return 0;
}

/* Sends the stream record of a reply: with each record of its request, and once at the reply's end. A reply of OpenAI's
 * API that is not a stream ends when nothing was sent for a while. */
static __always_inline void report_stream(struct request_connection *c, bool is_recorded, bool last)
{
    struct request_stream *st = stream_is_known(c) ? stream_find(c->number) : NULL;
    if (!st)
        return;
    const bool has_ended = !st->is_reported && (last || stream_state(c) != STREAM_FOUND);
    if (!is_recorded && !has_ended)
        return;
    st->is_reported |= has_ended;
    send_stream(c, st, has_ended);
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
    last = last || stream_has_ended(c);
    if (c->dirty)
        count(c, p);
    p->last_ns = now;
    const bool is_recorded = is_to_be_recorded(c, p, first, now, last);
    report_stream(c, is_recorded, last);
    if (is_recorded)
        send_record(c);
    c->dirty = false; /* at last: from now on the connection need not be held */
    return 0;
}

/* Nothing more can come of a request that was replied to. */
static __always_inline void publish_last(struct request_connection *c, __u64 now)
{
    if (c->dirty || c->recorded_ns || stream_state(c) == STREAM_FOUND)
        publish(c->number, now, true);
}

/* Publishes the request after the send of its first token, as after a pause: the flight recorder still has the time
 * until then. */
static __always_inline void publish_first_token(struct request_connection *c, __u64 now)
{
    struct request_stream *st = stream_state(c) == STREAM_FOUND ? stream_find(c->number) : NULL;
    if (!st || !st->is_first)
        return;
    st->is_first = false;
    publish(c->number, now, false);
}
