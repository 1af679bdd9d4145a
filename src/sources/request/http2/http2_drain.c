/* See http2_drain.h. */
#include "sources/request/http2/http2_drain.h"

#include "base/clock.h"
#include "model/request.h"
#include "probes/common/sampling.h"
#include "probes/request/request_choice.h"
#include "sources/events/batch.h"
#include "sources/request/http2/http2_requests.h"

#include <bpf/libbpf.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct process {
    uint64_t name;
    struct request_process counts;
};

struct http2_drain {
    struct ring_buffer *ring;
    struct http2_requests *requests;
    struct batch *batch; /* during a drain */
    uint32_t records_a_window;
    uint64_t seed;
    struct process *processes[HTTP2_PROCESSES_MAX];
    struct http2_calls calls;
    struct process *last; /* the one of the last request */
    uint64_t batch_full, not_detailed, processes_lost;
};

/* ---- counts ---- */

static struct process *find_process(struct http2_drain *d, uint64_t name)
{
    if (d->last && d->last->name == name)
        return d->last;
    size_t unused = HTTP2_PROCESSES_MAX;
    for (size_t i = 0; i < HTTP2_PROCESSES_MAX; i++) {
        if (d->processes[i] && d->processes[i]->name == name)
            return d->last = d->processes[i];
        if (!d->processes[i] && unused == HTTP2_PROCESSES_MAX)
            unused = i;
    }
    struct process *p = unused < HTTP2_PROCESSES_MAX ? calloc(1, sizeof(*p)) : NULL;
    if (!p)
        return NULL;
    p->name = name;
    d->processes[unused] = p;
    return d->last = p;
}

uint64_t http2_drain_process_name(const struct http2_drain *d, uint32_t place)
{
    return d->processes[place] ? d->processes[place]->name : 0;
}

bool http2_drain_read_process(const struct http2_drain *d, uint32_t place, uint64_t *ret_name,
                              struct request_process *ret)
{
    if (!d->processes[place])
        return false;
    *ret_name = d->processes[place]->name;
    *ret = d->processes[place]->counts;
    return true;
}

void http2_drain_forget_process(struct http2_drain *d, uint32_t place)
{
    if (d->last == d->processes[place])
        d->last = NULL;
    free(d->processes[place]);
    d->processes[place] = NULL;
}

static void count_request(struct request_process *p, const struct request_record *r)
{
    const uint16_t class = request_status_class(r->status), known = class < REQUEST_CLASSES ? class : 0;
    p->buckets[known][request_duration_bucket(r->duration_ns)]++;
    p->duration_sum_ns[known] += r->duration_ns;
    p->last_ns = r->h.time_ns;
    memcpy(p->comm, r->comm, sizeof(p->comm));
}

static void choose_record(const struct http2_drain *d, struct process *p, struct http2_report *report)
{
    struct request_record *r = &report->request;
    if (!(r->flags & REQUEST_NOTABLE) &&
        request_is_notable(&p->counts, r->duration_ns, request_is_failed(r->status), r->h.time_ns, d->records_a_window))
        r->flags |= REQUEST_NOTABLE;
    if (!report->is_second)
        r->weight = request_sample_weight(&p->counts, sampling_hash(d->seed, r->id));
}

static void add_record(struct http2_drain *d, const struct record_header *header)
{
    if (batch_add(d->batch, header) < 0)
        d->batch_full++;
}

static void take_report(void *context, uint64_t process, struct http2_report *report)
{
    struct http2_drain *d = context;
    struct request_record *r = &report->request;
    if (r->flags & REQUEST_CLIENT) {
        http2_calls_add(&d->calls, process, r);
        return;
    }
    struct process *p = find_process(d, process);
    if (!p) {
        d->processes_lost++;
        return;
    }
    if (!report->is_open)
        count_request(&p->counts, r);
    choose_record(d, p, report);
    const bool is_recorded = r->flags & REQUEST_NOTABLE || r->weight;
    if (report->stream.h.size_bytes && (is_recorded || !report->is_open))
        add_record(d, &report->stream.h);
    if (is_recorded)
        add_record(d, &r->h);
    else if (!report->is_open)
        d->not_detailed++;
}

/* ---- the ring ---- */

static int take_record(void *context, void *data, size_t size)
{
    http2_requests_take(((struct http2_drain *)context)->requests, data, size);
    return 0;
}

int http2_drain_new(int ring_fd, uint32_t records_a_window, uint64_t sampling_seed, struct http2_drain **ret)
{
    _cleanup_(http2_drain_freep) struct http2_drain *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->records_a_window = records_a_window;
    d->seed = sampling_seed ? sampling_seed : (uint64_t)(uintptr_t)d;
    const int r = http2_requests_new(take_report, d, &d->requests);
    if (r < 0)
        return r;
    d->ring = ring_buffer__new(ring_fd, take_record, d, NULL);
    if (!d->ring)
        return -errno;
    *ret = take_ptr(d);
    return 0;
}

void http2_drain_free(struct http2_drain *d)
{
    if (!d)
        return;
    ring_buffer__free(d->ring);
    http2_requests_free(d->requests);
    http2_calls_clear(&d->calls);
    for (uint32_t i = 0; i < HTTP2_PROCESSES_MAX; i++)
        free(d->processes[i]);
    free(d);
}

int http2_drain_poll_fd(const struct http2_drain *d)
{
    return ring_buffer__epoll_fd(d->ring);
}

int http2_drain_run(struct http2_drain *d, struct batch *batch)
{
    d->batch = batch;
    const int r = ring_buffer__consume(d->ring);
    http2_requests_turn(d->requests, clock_monotonic_ns());
    d->batch = NULL;
    return r < 0 ? r : 0;
}

void http2_drain_losses(const struct http2_drain *d, struct losses *losses)
{
    const struct http2_losses *l = http2_requests_losses(d->requests);
    losses->count[LOSS_RING_FULL] += d->batch_full;
    losses->count[LOSS_MAP_FULL] += l->streams + d->processes_lost;
    losses->count[LOSS_DECODE] += l->malformed;
    losses->count[LOSS_REQUEST_UNMATCHED] += l->gaps;
    losses->count[LOSS_REQUEST_UNBOUND] += l->unbound;
    losses->count[LOSS_REQUEST_NOT_DETAILED] += d->not_detailed;
    losses->count[LOSS_CALL_UNCOUNTED] += d->calls.uncounted;
}

void http2_drain_asked(const struct http2_drain *d, uint64_t socket, uint64_t from_ns, uint64_t to_ns,
                       char out[HTTP2_CALL_BYTES])
{
    http2_calls_find(&d->calls, socket, from_ns, to_ns, out);
}

void http2_drain_take_calls(struct http2_drain *d, http2_calls_taker *take, void *context)
{
    http2_calls_take(&d->calls, take, context);
}

size_t http2_drain_bytes(const struct http2_drain *d)
{
    return sizeof(*d) + http2_requests_bytes(d->requests);
}
