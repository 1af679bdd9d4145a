/* See queue_export.h. */
#include "send/queue_export.h"

#include "base/log.h"

#include <assert.h>
#include <string.h>

#define PERIOD_NS  1000000000ull
#define GIVE_UP_NS (60 * 1000000000ull)

uint64_t queue_export_now_ns(const struct queue_export *q)
{
    return q->io.now_ns(q->io.argument);
}

void queue_export_count_dropped(struct queue_export *q, enum drop_reason reason, uint64_t items)
{
    export_stats_count(&q->o.stats->dropped[reason], items);
}

/* ---- packets ---- */

void queue_export_begin_packets(struct queue_export *q)
{
    q->packet_items = 0;
}

void queue_export_send_packet(struct queue_export *q, const void *data, size_t size, uint64_t items)
{
    uint64_t rejected;
    enum drop_reason reason;
    q->packet_items += items;
    if (packet_sender_send(q->sender, data, size, &rejected, &reason) < 0) {
        queue_export_count_dropped(q, reason, items);
        return;
    }
    export_stats_count(&q->o.stats->items, items);
    export_stats_count(&q->o.stats->rejected, rejected < items ? rejected : items);
}

void queue_export_end_packets(struct queue_export *q, uint64_t items, int result, uint64_t too_large)
{
    queue_export_count_dropped(q, DROP_TOO_LARGE, too_large);
    if (result < 0)
        queue_export_count_dropped(q, DROP_NO_MEMORY, items - q->packet_items);
}

/* ---- lifecycle ---- */

int queue_export_init(struct queue_export *q, const struct queue_export_options *o)
{
    *q = (struct queue_export){.o = *o, .io = o->io ? *o->io : export_io_system(o->end)};
    q->o.config = NULL;
    uname(&q->uts);
    memcpy(q->attributes, o->config->otlp_resource_attributes, sizeof(q->attributes));
    const struct packet_sender_options options = {.config = o->config,
                                                  .signal = o->signal,
                                                  .give_up_ns = GIVE_UP_NS,
                                                  .io = &q->io,
                                                  .end = o->end,
                                                  .stats = &o->stats->sent};
    return packet_sender_new(&options, &q->sender);
}

static void *export_thread(void *context)
{
    struct queue_export *q = context;
    while (export_end_pause(q->o.end, queue_export_now_ns(q) + PERIOD_NS))
        q->o.send(q->o.context);
    q->o.send(q->o.context);
    return NULL;
}

int queue_export_start(struct queue_export *q)
{
    assert(!q->has_thread);
    int r = -pthread_create(&q->thread, NULL, export_thread, q);
    if (r < 0)
        return r;
    q->has_thread = true;
    (void)pthread_setname_np(q->thread, q->o.thread);
    log_info("%s are sent to %s%s", q->o.what, packet_sender_url(q->sender),
             packet_sender_is_grpc(q->sender) ? " by gRPC" : "");
    return 0;
}

void queue_export_end(struct queue_export *q)
{
    export_end_begin(q->o.end, queue_export_now_ns(q));
}

static void join_thread(struct queue_export *q)
{
    const struct queue_export_stats *s = q->o.stats;
    pthread_join(q->thread, NULL);
    log_info("%s: %llu were sent to %s, in %llu packets of %llu bytes in all; %llu were dropped", q->o.what,
             (unsigned long long)export_stats_read(&s->items), packet_sender_url(q->sender),
             (unsigned long long)export_stats_read(&s->sent.packets),
             (unsigned long long)export_stats_read(&s->sent.bytes),
             (unsigned long long)export_stats_dropped(s->dropped));
}

void queue_export_fini(struct queue_export *q)
{
    if (q->has_thread) {
        queue_export_end(q);
        join_thread(q);
    }
    packet_sender_free(q->sender);
}
