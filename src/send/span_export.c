/* See span_export.h. */
#include "send/span_export.h"

#include "base/log.h"
#include "export/otlp_spans.h"
#include "send/export_stats.h"
#include "send/packet_sender.h"
#include "send/span_queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define PACKET_BYTES ((size_t)512 << 10)
#define TAKEN_MAX    512 /* requests of a packet or a few */
#define PERIOD_NS    1000000000ull
#define GIVE_UP_NS   (60 * 1000000000ull)

struct span_export {
    struct export_io io;
    struct span_queue *queue;
    struct packet_sender *sender;
    struct spans_export_stats stats;
    struct utsname uts;
    char attributes[sizeof(((struct config *)0)->otlp_resource_attributes)];
    uint64_t packet_spans; /* of the requests being sent, in packets so far, delivered or dropped */
    pthread_t thread;
    bool has_thread;
};

static uint64_t clock_now(const struct span_export *e)
{
    return e->io.now_ns(e->io.argument);
}

static void count_dropped(struct span_export *e, enum drop_reason reason, uint64_t spans)
{
    export_stats_count(&e->stats.dropped[reason], spans);
}

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
        count_dropped(e, DROP_NO_MEMORY, 1);
        return;
    }
    const struct span_queued queued = span_queue_push(e->queue, copy);
    count_dropped(e, DROP_QUEUE_FULL, queued.dropped);
    export_stats_count(&e->stats.late, queued.is_late ? 1 : 0);
}

void span_export_trim(struct span_export *e)
{
    count_dropped(e, DROP_QUEUE_FULL, span_queue_trim(e->queue));
}

/* ---- the sender thread ---- */

static void send_packet(void *context, const struct otlp_spans_packet *packet)
{
    struct span_export *e = context;
    uint64_t rejected;
    enum drop_reason reason;
    e->packet_spans += packet->spans;
    if (packet_sender_send(e->sender, packet->data, packet->size, &rejected, &reason) < 0) {
        count_dropped(e, reason, packet->spans);
        return;
    }
    export_stats_count(&e->stats.spans, packet->spans);
    export_stats_count(&e->stats.rejected_spans, rejected < packet->spans ? rejected : packet->spans);
}

static void send_requests(struct span_export *e, struct request *const *requests, size_t count)
{
    const struct otlp_spans_options options = {
        .packet_max_bytes = PACKET_BYTES, .host_name = e->uts.nodename, .attributes = e->attributes};
    uint64_t too_large = 0;
    e->packet_spans = 0;
    int r = otlp_spans_write(requests, count, &options, &(struct otlp_spans_sink){e, send_packet}, &too_large);
    count_dropped(e, DROP_TOO_LARGE, too_large);
    if (r < 0)
        count_dropped(e, DROP_NO_MEMORY, count - e->packet_spans);
}

void span_export_send(struct span_export *e)
{
    struct request *requests[TAKEN_MAX];
    size_t count;
    do {
        count = span_queue_take(e->queue, clock_now(e), TAKEN_MAX, requests);
        send_requests(e, requests, count);
        for (size_t i = 0; i < count; i++)
            request_free(requests[i]);
    } while (count == TAKEN_MAX);
}

static void *export_thread(void *context)
{
    struct span_export *e = context;
    while (export_end_pause(span_queue_end(e->queue), clock_now(e) + PERIOD_NS))
        span_export_send(e);
    span_export_send(e);
    return NULL;
}

/* ---- lifecycle ---- */

static int open_sender(struct span_export *e, const struct config *config, const struct export_io *io)
{
    e->io = io ? *io : export_io_system(span_queue_end(e->queue));
    const struct packet_sender_options options = {.config = config,
                                                  .signal = OTLP_SIGNAL_TRACES,
                                                  .give_up_ns = GIVE_UP_NS,
                                                  .io = &e->io,
                                                  .end = span_queue_end(e->queue),
                                                  .stats = &e->stats.sent};
    return packet_sender_new(&options, &e->sender);
}

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
    uname(&e->uts);
    memcpy(e->attributes, config->otlp_resource_attributes, sizeof(e->attributes));
    int r = span_queue_new(memory->bytes[MEMORY_SPAN_QUEUE], &e->queue);
    if (r == 0)
        r = open_sender(e, config, io);
    if (r < 0)
        return r;
    *ret = take_ptr(e);
    return 0;
}

int span_export_start(struct span_export *e)
{
    assert(!e->has_thread);
    int r = -pthread_create(&e->thread, NULL, export_thread, e);
    if (r < 0)
        return r;
    e->has_thread = true;
    (void)pthread_setname_np(e->thread, "span-export");
    log_info("spans of requests are sent to %s%s", packet_sender_url(e->sender),
             packet_sender_is_grpc(e->sender) ? " by gRPC" : "");
    return 0;
}

void span_export_end(struct span_export *e)
{
    if (e && e->queue)
        export_end_begin(span_queue_end(e->queue), clock_now(e));
}

static void join_thread(struct span_export *e)
{
    const struct spans_export_stats *s = &e->stats;
    pthread_join(e->thread, NULL);
    log_info("spans: %llu were sent to %s, in %llu packets of %llu bytes in all; %llu were dropped",
             (unsigned long long)export_stats_read(&s->spans), packet_sender_url(e->sender),
             (unsigned long long)export_stats_read(&s->sent.packets),
             (unsigned long long)export_stats_read(&s->sent.bytes),
             (unsigned long long)export_stats_dropped(s->dropped));
}

void span_export_free(struct span_export *e)
{
    if (!e)
        return;
    if (e->has_thread) {
        span_export_end(e);
        join_thread(e);
    }
    packet_sender_free(e->sender);
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
