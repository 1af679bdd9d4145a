/* See metrics_export.h. Every point of a collection is in one accepted packet or counted as dropped (export_stats.h).
 */
#include "send/metrics_export.h"

#include "base/clock.h"
#include "base/log.h"
#include "export/otlp_metrics.h"
#include "send/export_stats.h"
#include "send/packet_sender.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define PACKET_BYTES    ((size_t)1 << 20)
#define PACKET_POINTS   8192
#define CLOCK_IS_SET_NS 1000000000ull /* a change of the offset between the clocks by more than this */

struct metrics_export {
    struct export_io io;
    struct metrics_source source;
    uint64_t interval_ns;
    struct export_end end;
    pthread_t thread;
    bool has_thread;
    struct metrics_export_stats stats;

    /* The sender thread. */
    struct packet_sender *sender;
    struct series_starts *starts;
    struct utsname uts;
    char attributes[sizeof(((struct config *)0)->otlp_resource_attributes)];
    uint64_t unix_offset_ns; /* see struct otlp_metrics_options */
    uint64_t packet_points;  /* points of the current collection in packets so far, delivered or dropped */
    bool is_unreachable;     /* the current collection could not be delivered */
};

static uint64_t clock_now(const struct metrics_export *e)
{
    return e->io.now_ns(e->io.argument);
}

static void count_dropped(struct metrics_export *e, enum drop_reason reason, uint64_t points)
{
    export_stats_count(&e->stats.dropped[reason], points);
}

/* ---- one collection ---- */

/* A packet is tried for a whole interval. If it is given up, the others of its collection would be late. */
static void send_packet(void *context, const struct otlp_metrics_packet *packet)
{
    struct metrics_export *e = context;
    uint64_t rejected;
    enum drop_reason reason = DROP_UNREACHABLE;
    e->packet_points += packet->points;
    if (e->is_unreachable || packet_sender_send(e->sender, packet->data, packet->size, &rejected, &reason) < 0) {
        e->is_unreachable |= reason == DROP_UNREACHABLE;
        count_dropped(e, reason, packet->points);
        return;
    }
    export_stats_count(&e->stats.points, packet->points);
    export_stats_count(&e->stats.rejected_points, rejected < packet->points ? rejected : packet->points);
}

static uint64_t count_points(const struct metric_set *set)
{
    uint64_t points = 0;
    for (size_t i = 0; i < metric_set_families(set); i++)
        points += metric_set_family(set, i).point_count;
    return points;
}

/* Starts of series stay the same from packet to packet, unless the system's clock is set. */
static void follow_system_clock(struct metrics_export *e)
{
    const uint64_t offset_ns = clock_unix_from_monotonic(0);
    if (offset_ns - e->unix_offset_ns + CLOCK_IS_SET_NS > 2 * CLOCK_IS_SET_NS)
        e->unix_offset_ns = offset_ns;
}

static void send_set(struct metrics_export *e, const struct metric_set *set, uint64_t time_ns, uint64_t read_ns)
{
    const struct otlp_metrics_options options = {.packet_max_bytes = PACKET_BYTES,
                                                 .packet_max_points = PACKET_POINTS,
                                                 .host_name = e->uts.nodename,
                                                 .attributes = e->attributes,
                                                 .time_ns = time_ns,
                                                 .unix_offset_ns = e->unix_offset_ns};
    const struct otlp_metrics_sink sink = {e, send_packet};
    uint64_t too_large = 0;
    e->packet_points = 0;
    e->is_unreachable = false;
    series_starts_begin(e->starts, time_ns, read_ns);
    int r = otlp_metrics_write(set, e->starts, &options, &sink, &too_large);
    r = series_starts_end(e->starts) ?: r;
    count_dropped(e, DROP_TOO_LARGE, too_large);
    if (r < 0)
        count_dropped(e, DROP_NO_MEMORY, count_points(set) - e->packet_points - too_large);
}

void metrics_export_send(struct metrics_export *e)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    uint64_t read_ns;
    int r = metric_set_new(&set) ?: e->source.collect(e->source.context, set, &read_ns);
    if (r < 0) {
        log_errno(r, "metrics cannot be collected for the export");
        count_dropped(e, DROP_NO_MEMORY, set ? count_points(set) : 0);
        return;
    }
    const uint64_t now_ns = clock_now(e);
    follow_system_clock(e);
    send_set(e, set, now_ns, read_ns < now_ns ? read_ns : now_ns);
}

/* ---- the sender thread ---- */

static void *export_thread(void *context)
{
    struct metrics_export *e = context;
    uint64_t due_ns = clock_now(e) + e->interval_ns;
    while (export_end_pause(&e->end, due_ns)) {
        metrics_export_send(e);
        const uint64_t now_ns = clock_now(e);
        while (due_ns <= now_ns) /* intervals that a slow receiver took */
            due_ns += e->interval_ns;
    }
    metrics_export_send(e);
    return NULL;
}

/* ---- lifecycle ---- */

int metrics_export_new(const struct config *config, const struct metrics_source *source, const struct export_io *io,
                       struct metrics_export **ret)
{
    if (!config->otlp_metrics_endpoint[0]) {
        *ret = NULL;
        return 0;
    }
    _cleanup_(metrics_export_freep) struct metrics_export *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    e->source = *source;
    e->interval_ns = (uint64_t)config->otlp_metrics_interval_s * 1000000000ull;
    export_end_init(&e->end);
    e->io = io ? *io : export_io_system(&e->end);
    uname(&e->uts);
    memcpy(e->attributes, config->otlp_resource_attributes, sizeof(e->attributes));
    const struct packet_sender_options options = {.config = config,
                                                  .signal = OTLP_SIGNAL_METRICS,
                                                  .give_up_ns = e->interval_ns,
                                                  .io = &e->io,
                                                  .end = &e->end,
                                                  .stats = &e->stats.sent};
    int r = series_starts_new(source->start_ns, &e->starts) ?: packet_sender_new(&options, &e->sender);
    if (r < 0)
        return r;
    *ret = take_ptr(e);
    return 0;
}

int metrics_export_start(struct metrics_export *e)
{
    assert(!e->has_thread);
    int r = -pthread_create(&e->thread, NULL, export_thread, e);
    if (r < 0)
        return r;
    e->has_thread = true;
    (void)pthread_setname_np(e->thread, "metrics-export");
    log_info("metrics are sent to %s%s every %llu s", packet_sender_url(e->sender),
             packet_sender_is_grpc(e->sender) ? " by gRPC" : "", (unsigned long long)(e->interval_ns / 1000000000));
    return 0;
}

void metrics_export_end(struct metrics_export *e)
{
    if (e)
        export_end_begin(&e->end, clock_now(e));
}

static void join_thread(struct metrics_export *e)
{
    const struct metrics_export_stats *s = &e->stats;
    pthread_join(e->thread, NULL);
    log_info("metrics: %llu points were sent to %s, in %llu packets of %llu bytes in all; %llu were dropped",
             (unsigned long long)export_stats_read(&s->points), packet_sender_url(e->sender),
             (unsigned long long)export_stats_read(&s->sent.packets),
             (unsigned long long)export_stats_read(&s->sent.bytes),
             (unsigned long long)export_stats_dropped(s->dropped));
}

void metrics_export_free(struct metrics_export *e)
{
    if (!e)
        return;
    metrics_export_end(e);
    if (e->has_thread)
        join_thread(e);
    packet_sender_free(e->sender);
    series_starts_free(e->starts);
    export_end_fini(&e->end);
    free(e);
}

void metrics_export_metrics(const struct metrics_export *e, struct metric_set *set)
{
    metrics_export_stats_metrics(&e->stats, set);
}
