/* See event_export.h. */
#include "send/event_export.h"

#include "export/otlp_logs.h"
#include "send/event_queue.h"
#include "send/queue_export.h"

#include <errno.h>
#include <stdlib.h>

#define TAKEN_MAX 256 /* events of a packet or a few */

struct event_export {
    struct event_queue *queue;
    struct queue_export sending;
    struct queue_export_stats stats;
};

/* ---- the pipeline thread ---- */

void event_export_add(struct event_export *e, const struct node_event *event, uint64_t unix_ns)
{
    struct kept_node_event *k;
    if (node_event_keep(event, unix_ns, &k) < 0)
        queue_export_count_dropped(&e->sending, DROP_NO_MEMORY, 1);
    else
        queue_export_count_dropped(&e->sending, DROP_QUEUE_FULL, event_queue_push(e->queue, k));
}

void event_export_trim(struct event_export *e)
{
    queue_export_count_dropped(&e->sending, DROP_QUEUE_FULL, event_queue_trim(e->queue));
}

/* ---- the sender thread ---- */

static void send_packet(void *context, const struct otlp_logs_packet *packet)
{
    queue_export_send_packet(context, packet->data, packet->size, packet->records);
}

static void send_events(struct queue_export *q, struct kept_node_event *const *events, size_t count)
{
    const struct otlp_logs_options options = {
        .packet_max_bytes = QUEUE_EXPORT_PACKET_BYTES, .host_name = q->uts.nodename, .attributes = q->attributes};
    uint64_t too_large = 0;
    queue_export_begin_packets(q);
    int r = otlp_logs_write(events, count, &options, &(struct otlp_logs_sink){q, send_packet}, &too_large);
    queue_export_end_packets(q, count, r, too_large);
}

void event_export_send(struct event_export *e)
{
    struct kept_node_event *events[TAKEN_MAX];
    size_t count;
    do {
        count = event_queue_take(e->queue, TAKEN_MAX, events);
        send_events(&e->sending, events, count);
        for (size_t i = 0; i < count; i++)
            free(events[i]);
    } while (count == TAKEN_MAX);
}

static void send_due(void *context)
{
    event_export_send(context);
}

/* ---- lifecycle ---- */

int event_export_new(const struct config *config, const struct memory_plan *memory, const struct export_io *io,
                     struct event_export **ret)
{
    if (!config->otlp_logs_endpoint[0]) {
        *ret = NULL;
        return 0;
    }
    _cleanup_(event_export_freep) struct event_export *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    int r = event_queue_new(memory->bytes[MEMORY_EVENT_QUEUE], &e->queue);
    if (r < 0)
        return r;
    const struct queue_export_options options = {.config = config,
                                                 .io = io,
                                                 .signal = OTLP_SIGNAL_LOGS,
                                                 .what = "events",
                                                 .thread = "event-export",
                                                 .end = event_queue_end(e->queue),
                                                 .stats = &e->stats,
                                                 .send = send_due,
                                                 .context = e};
    r = queue_export_init(&e->sending, &options);
    if (r < 0)
        return r;
    *ret = take_ptr(e);
    return 0;
}

int event_export_start(struct event_export *e)
{
    return queue_export_start(&e->sending);
}

void event_export_end(struct event_export *e)
{
    if (e)
        queue_export_end(&e->sending);
}

void event_export_free(struct event_export *e)
{
    if (!e)
        return;
    queue_export_fini(&e->sending);
    event_queue_free(e->queue);
    free(e);
}

void event_export_metrics(const struct event_export *e, struct metric_set *set)
{
    events_export_stats_metrics(&e->stats, set);
    metric_add(set, "sonde_self_events_export_queue_bytes", METRIC_GAUGE, "bytes",
               "Memory held by events that wait to be sent.", (double)event_queue_bytes(e->queue), METRIC_NO_LABELS);
}
