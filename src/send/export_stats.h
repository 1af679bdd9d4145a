/* Statistics of the exports, written by the pipeline thread and the sender threads, read by any thread. */
#pragma once

#include "model/metric.h"

#include <stdatomic.h>
#include <stdint.h>

/* Why samples or points are in no accepted packet. */
enum drop_reason {
    DROP_QUEUE_FULL,  /* the receiver was unavailable for longer than the queue can hold */
    DROP_UNREACHABLE, /* no response, or only "busy", until the sender gave up */
    DROP_REFUSED,     /* the receiver rejected the packet */
    DROP_TOO_LARGE,   /* a stack and its names, or a point, exceed the packet limit */
    DROP_NO_MEMORY,
    DROP_ENDED, /* the agent ended before they were sent */
    DROP_COUNT
};

/* Of one signal. */
struct packet_stats {
    atomic_uint_least64_t packets, bytes; /* accepted by the receiver; bytes as sent */
    atomic_uint_least64_t failures;       /* failed attempts */
};

/* Of profiles. Once all of them are delivered, taken = samples + all dropped. */
struct export_stats {
    struct packet_stats sent;
    atomic_uint_least64_t taken;               /* samples */
    atomic_uint_least64_t samples;             /* in accepted packets */
    atomic_uint_least64_t rejected_profiles;   /* of accepted packets */
    atomic_uint_least64_t unlinked;            /* samples without link or labels, dropped for lack of space */
    atomic_uint_least64_t dropped[DROP_COUNT]; /* samples */
};

/* Of metrics. */
struct metrics_export_stats {
    struct packet_stats sent;
    atomic_uint_least64_t points;              /* in accepted packets */
    atomic_uint_least64_t rejected_points;     /* of accepted packets */
    atomic_uint_least64_t dropped[DROP_COUNT]; /* points */
};

/* Of items that are queued one by one: spans, events. */
struct queue_export_stats {
    struct packet_stats sent;
    atomic_uint_least64_t items;               /* in accepted packets */
    atomic_uint_least64_t rejected;            /* items of accepted packets */
    atomic_uint_least64_t dropped[DROP_COUNT]; /* items */
};

/* Of spans, in addition to the statistics of their queue. */
struct spans_export_stats {
    struct queue_export_stats queued;
    atomic_uint_least64_t unsampled; /* left out, because their callers do not sample the trace */
    atomic_uint_least64_t late;      /* newer records of requests whose spans were already sent */
};

static inline void export_stats_count(atomic_uint_least64_t *counter, uint64_t number)
{
    atomic_fetch_add_explicit(counter, number, memory_order_relaxed);
}

static inline uint64_t export_stats_read(const atomic_uint_least64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

uint64_t export_stats_dropped(const atomic_uint_least64_t dropped[DROP_COUNT]); /* sum over all reasons */
void export_stats_metrics(const struct export_stats *s, struct metric_set *set);
void metrics_export_stats_metrics(const struct metrics_export_stats *s, struct metric_set *set);
void spans_export_stats_metrics(const struct spans_export_stats *s, struct metric_set *set);
void events_export_stats_metrics(const struct queue_export_stats *s, struct metric_set *set);
