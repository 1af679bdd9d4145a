/* See export_stats.h. */
#include "send/export_stats.h"

#include <stddef.h>

uint64_t export_stats_dropped(const atomic_uint_least64_t dropped[DROP_COUNT])
{
    uint64_t sum = 0;
    for (int i = 0; i < DROP_COUNT; i++)
        sum += export_stats_read(&dropped[i]);
    return sum;
}

static void add_counter(struct metric_set *set, const char *name, const char *unit, const char *help,
                        const atomic_uint_least64_t *counter)
{
    metric_add(set, name, METRIC_COUNTER, unit, help, (double)export_stats_read(counter), METRIC_NO_LABELS);
}

static void add_dropped(struct metric_set *set, const char *name, const char *help,
                        const atomic_uint_least64_t dropped[DROP_COUNT], enum drop_reason first)
{
    static const char *const reasons[DROP_COUNT] = {
        [DROP_QUEUE_FULL] = "queue_full", [DROP_UNREACHABLE] = "unreachable", [DROP_REFUSED] = "refused",
        [DROP_TOO_LARGE] = "too_large",   [DROP_NO_MEMORY] = "no_memory",     [DROP_ENDED] = "ended",
    };
    for (int i = (int)first; i < DROP_COUNT; i++)
        metric_add(set, name, METRIC_COUNTER, "", help, (double)export_stats_read(&dropped[i]),
                   METRIC_LABELS({"reason", reasons[i]}));
}

void export_stats_metrics(const struct export_stats *s, struct metric_set *set)
{
    add_counter(set, "sonde_self_export_packets", "", "Packets of profiles that the receiver accepted.",
                &s->sent.packets);
    add_counter(set, "sonde_self_export_bytes", "bytes", "Size of the packets as sent: compressed, without headers.",
                &s->sent.bytes);
    add_counter(set, "sonde_self_export_samples", "", "Samples in these packets.", &s->samples);
    add_counter(set, "sonde_self_export_failures", "",
                "Attempts to deliver a packet that failed; most are tried again.", &s->sent.failures);
    add_counter(set, "sonde_self_export_rejected_profiles", "",
                "Profiles that the receiver rejected within packets that it accepted.", &s->rejected_profiles);
    add_counter(set, "sonde_self_export_unlinked_samples", "",
                "Samples sent without their traced request or labels, for lack of space.", &s->unlinked);
    add_dropped(set, "sonde_self_export_dropped_samples", "Samples that no receiver accepted, by reason.", s->dropped,
                DROP_QUEUE_FULL);
}

/* Metrics are not queued. */
void metrics_export_stats_metrics(const struct metrics_export_stats *s, struct metric_set *set)
{
    add_counter(set, "sonde_self_metrics_export_packets", "", "Packets of metrics that the receiver accepted.",
                &s->sent.packets);
    add_counter(set, "sonde_self_metrics_export_bytes", "bytes",
                "Size of the packets as sent: compressed, without headers.", &s->sent.bytes);
    add_counter(set, "sonde_self_metrics_export_points", "", "Points in the packets.", &s->points);
    add_counter(set, "sonde_self_metrics_export_failures", "",
                "Attempts to deliver a packet that failed; most are tried again.", &s->sent.failures);
    add_counter(set, "sonde_self_metrics_export_rejected_points", "",
                "Points that the receiver rejected within packets that it accepted.", &s->rejected_points);
    add_dropped(set, "sonde_self_metrics_export_dropped_points", "Points that are in no accepted packet, by reason.",
                s->dropped, DROP_UNREACHABLE);
}

void spans_export_stats_metrics(const struct spans_export_stats *s, struct metric_set *set)
{
    add_counter(set, "sonde_self_spans_export_packets", "", "Packets of spans that the receiver accepted.",
                &s->queued.sent.packets);
    add_counter(set, "sonde_self_spans_export_bytes", "bytes",
                "Size of the packets as sent: compressed, without headers.", &s->queued.sent.bytes);
    add_counter(set, "sonde_self_spans_export_spans", "", "Spans in the packets.", &s->queued.items);
    add_counter(set, "sonde_self_spans_export_failures", "",
                "Attempts to deliver a packet that failed; most are tried again.", &s->queued.sent.failures);
    add_counter(set, "sonde_self_spans_export_rejected_spans", "",
                "Spans that the receiver rejected within packets that it accepted.", &s->queued.rejected);
    add_counter(set, "sonde_self_spans_export_unsampled", "",
                "Recorded requests without a span, because their callers do not sample the trace.", &s->unsampled);
    add_counter(set, "sonde_self_spans_export_late", "",
                "Records of replies that went on after their span was sent, which has the time until then.", &s->late);
    add_dropped(set, "sonde_self_spans_export_dropped_spans", "Spans that no receiver accepted, by reason.",
                s->queued.dropped, DROP_QUEUE_FULL);
}

void events_export_stats_metrics(const struct queue_export_stats *s, struct metric_set *set)
{
    add_counter(set, "sonde_self_events_export_packets", "", "Packets of events that the receiver accepted.",
                &s->sent.packets);
    add_counter(set, "sonde_self_events_export_bytes", "bytes",
                "Size of the packets as sent: compressed, without headers.", &s->sent.bytes);
    add_counter(set, "sonde_self_events_export_events", "", "Events in the packets.", &s->items);
    add_counter(set, "sonde_self_events_export_failures", "",
                "Attempts to deliver a packet that failed; most are tried again.", &s->sent.failures);
    add_counter(set, "sonde_self_events_export_rejected_events", "",
                "Events that the receiver rejected within packets that it accepted.", &s->rejected);
    add_dropped(set, "sonde_self_events_export_dropped_events", "Events that no receiver accepted, by reason.",
                s->dropped, DROP_QUEUE_FULL);
}
