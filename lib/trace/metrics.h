/* What the generations of a server took: OpenTelemetry's histograms of model servers, for every generation,
 * traced or not. Threads that serve requests count without a lock, but for the first of a series; who reads
 * (an export, a page) sees each generation in count, buckets and sum, or in none of them. Bounded: what comes
 * after TRACE_SERIES_MAX combinations of names is counted without names. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_SERIES_MAX 1024
#define TRACE_BOUNDS_MAX 16

enum trace_metric {
    TRACE_REQUEST_DURATION,
    TRACE_TIME_TO_FIRST_TOKEN,
    TRACE_TIME_PER_OUTPUT_TOKEN,
    TRACE_INPUT_TOKENS, /* this one and the next are one metric, by their types of token */
    TRACE_OUTPUT_TOKENS,
    TRACE_METRICS
};

struct trace_metric_kind {
    const char *name, *description;
    const char *token_type; /* gen_ai.token.type: it counts tokens; NULL: nanoseconds, which are sent as seconds */
    unsigned bound_count;   /* and one bucket more, above them all */
    uint64_t bounds[TRACE_BOUNDS_MAX];
};

extern const struct trace_metric_kind trace_metric_kinds[TRACE_METRICS];

/* The metrics of one name are `metric` up to this. */
unsigned trace_metrics_end_of(unsigned metric);

/* What tells series apart. Texts may be empty, never NULL. */
struct trace_series_key {
    const char *model; /* a name of the manager: compared as a pointer */
    const char *operation, *finish_reason, *error_type;
};

struct trace_series;

struct trace_histogram {
    uint64_t counts[TRACE_BOUNDS_MAX + 1]; /* by bucket, not added up */
    uint64_t count, sum;
};

struct trace_series_stats {
    const char *model, *operation, *finish_reason, *error_type;
    uint32_t order; /* of creation */
    bool overflow;  /* of all that have no series of their own; without names */
    struct trace_histogram histograms[TRACE_METRICS];
};

/* Texts are borrowed from the metrics. */
struct trace_metrics_snapshot {
    uint64_t start_unix_ns, unix_ns; /* what is counted, from when to when */
    size_t count;
    struct trace_series_stats *series; /* in the order of creation */
};

struct trace_metrics {
    struct trace_series *_Atomic slots[2 * TRACE_SERIES_MAX];
    atomic_uint series_count;
    struct trace_series *overflow;
    atomic_uint_least64_t generations, overflowed;
    pthread_mutex_t lock;   /* of those who read */
    pthread_mutex_t making; /* of those who find a series missing; taken within the other one */
    uint64_t start_unix_ns;
};

int trace_metrics_init(struct trace_metrics *m);
void trace_metrics_fini(struct trace_metrics *m);

#define TRACE_NO_VALUE UINT64_MAX

/* One generation. Copies the texts of the key when it is the first of its series. */
void trace_metrics_count(struct trace_metrics *m, const struct trace_series_key *key,
                         const uint64_t values[TRACE_METRICS]);

/* ret->series is to be freed. -ENOMEM. */
int trace_metrics_read(struct trace_metrics *m, struct trace_metrics_snapshot *ret);

/* A child counts anew: all that was counted is its parent's. The lock is held. */
void trace_metrics_reset_in_child(struct trace_metrics *m);
