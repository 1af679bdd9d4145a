/* See span_export.h. */
#include "send/span_export.h"

#include "export/otlp_spans.h"
#include "send/queue_export.h"
#include "send/span_queue.h"

#include <errno.h>
#include <stdlib.h>

#define TAKEN_MAX 512 /* requests of a packet or a few */

struct span_export {
    struct span_queue *queue;
    struct queue_export sending;
    struct spans_export_stats stats;
};

/* ---- the pipeline thread ---- */

void span_export_add(struct span_export *e, const struct request *r)
{
    struct request *copy;
    if (!trace_link_is_set(&r->span.id) || request_span_is_of_export(&r->span))
        return;
    if (r->span.is_unsampled && !request_is_abnormal(r)) {
        export_stats_count(&e->stats.unsampled, 1);
        return;
    }
    if (request_copy(r, &copy) < 0) {
        queue_export_count_dropped(&e->sending, DROP_NO_MEMORY, 1);
        return;
    }
    const struct span_queued queued = span_queue_push(e->queue, copy);
    queue_export_count_dropped(&e->sending, DROP_QUEUE_FULL, queued.dropped);
    export_stats_count(&e->stats.late, queued.is_late ? 1 : 0);
}

void span_export_trim(struct span_export *e)
{
    queue_export_count_dropped(&e->sending, DROP_QUEUE_FULL, span_queue_trim(e->queue));
}

/* ---- the sender thread ---- */

static void send_packet(void *context, const struct otlp_spans_packet *packet)
{
    queue_export_send_packet(context, packet->data, packet->size, packet->spans);
}

static void send_requests(struct queue_export *q, struct request *const *requests, size_t count)
{
    const struct otlp_spans_options options = {
        .packet_max_bytes = QUEUE_EXPORT_PACKET_BYTES, .host_name = q->uts.nodename, .attributes = q->attributes};
    uint64_t too_large = 0;
    queue_export_begin_packets(q);
    int r = otlp_spans_write(requests, count, &options, &(struct otlp_spans_sink){q, send_packet}, &too_large);
    queue_export_end_packets(q, count, r, too_large);
}

void span_export_send(struct span_export *e)
{
    struct request *requests[TAKEN_MAX];
    size_t count;
    do {
        count = span_queue_take(e->queue, queue_export_now_ns(&e->sending), TAKEN_MAX, requests);
        send_requests(&e->sending, requests, count);
        for (size_t i = 0; i < count; i++)
            request_free(requests[i]);
    } while (count == TAKEN_MAX);
}

static void send_due(void *context)
{
    span_export_send(context);
}

/* ---- lifecycle ---- */

int span_export_new(const struct config *config, const struct memory_plan *memory, const struct export_io *io,
                    struct span_export **ret)
{
    if (!config->otlp_traces_endpoint[0]) {
        *ret = NULL;
        return 0;
    }
    _cleanup_(span_export_freep) struct span_export *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    int r = span_queue_new(memory->bytes[MEMORY_SPAN_QUEUE], &e->queue);
    if (r < 0)
        return r;
    const struct queue_export_options options = {.config = config,
                                                 .io = io,
                                                 .signal = OTLP_SIGNAL_TRACES,
                                                 .what = "spans",
                                                 .thread = "span-export",
                                                 .end = span_queue_end(e->queue),
                                                 .stats = &e->stats.queued,
                                                 .send = send_due,
                                                 .context = e};
    r = queue_export_init(&e->sending, &options);
    if (r < 0)
        return r;
    *ret = take_ptr(e);
    return 0;
}

int span_export_start(struct span_export *e)
{
    return queue_export_start(&e->sending);
}

void span_export_end(struct span_export *e)
{
    if (e)
        queue_export_end(&e->sending);
}

void span_export_free(struct span_export *e)
{
    if (!e)
        return;
    queue_export_fini(&e->sending);
    span_queue_free(e->queue);
    free(e);
}

void span_export_metrics(const struct span_export *e, struct metric_set *set)
{
    spans_export_stats_metrics(&e->stats, set);
    metric_add(set, "sonde_self_spans_export_queue_bytes", METRIC_GAUGE, "bytes",
               "Memory held by requests that wait to be sent as spans.", (double)span_queue_bytes(e->queue),
               METRIC_NO_LABELS);
}
