/* See export_stats.h. */
#include "agent/export_stats.h"

#include <stddef.h>

uint64_t export_stats_dropped(const struct export_stats *s)
{
    uint64_t dropped = 0;
    for (int i = 0; i < DROP_COUNT; i++)
        dropped += export_stats_read(&s->dropped[i]);
    return dropped;
}

static void add_counter(struct metric_set *set, const char *name, const char *unit, const char *help,
                        const atomic_uint_least64_t *counter)
{
    metric_add(set, name, METRIC_COUNTER, unit, help, (double)export_stats_read(counter), METRIC_NO_LABELS);
}

void export_stats_metrics(const struct export_stats *s, struct metric_set *set)
{
    static const char *const reasons[DROP_COUNT] = {
        [DROP_QUEUE_FULL] = "queue_full", [DROP_UNREACHABLE] = "unreachable", [DROP_REFUSED] = "refused",
        [DROP_TOO_LARGE] = "too_large",   [DROP_NO_MEMORY] = "no_memory",     [DROP_ENDED] = "ended",
    };
    add_counter(set, "sonde_self_export_packets", "", "Packets of profiles that the receiver accepted.", &s->packets);
    add_counter(set, "sonde_self_export_bytes", "bytes", "Size of these packets as sent: compressed, without headers.",
                &s->bytes);
    add_counter(set, "sonde_self_export_samples", "", "Samples in these packets.", &s->samples);
    add_counter(set, "sonde_self_export_failures", "",
                "Attempts to deliver a packet that failed; most are tried again.", &s->failures);
    add_counter(set, "sonde_self_export_rejected_profiles", "",
                "Profiles that the receiver rejected within packets that it accepted.", &s->rejected_profiles);
    add_counter(set, "sonde_self_export_unlinked_samples", "",
                "Samples sent without their traced request or labels, for lack of space.", &s->unlinked);
    for (int i = 0; i < DROP_COUNT; i++)
        metric_add(set, "sonde_self_export_dropped_samples", METRIC_COUNTER, "",
                   "Samples that are in no accepted packet, by reason.", (double)export_stats_read(&s->dropped[i]),
                   METRIC_LABELS({"reason", reasons[i]}));
}
