/* Metrics of token generation: OpenTelemetry's histograms for model servers, for every generation, traced or not.
 * Request threads count without a lock, except for the first of a series; a reader (an export, a page) sees each
 * generation in count, buckets and sum, or in none of them. Bounded: beyond TRACE_SERIES_MAX label combinations,
 * generations are counted without labels. */
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
    TRACE_INPUT_TOKENS, /* this and the next are one metric, distinguished by token type */
    TRACE_OUTPUT_TOKENS,
    TRACE_METRICS
};

struct trace_metric_kind {
    const char *name, *description;
    const char *token_type; /* gen_ai.token.type of token counts; NULL: nanoseconds, exported as seconds */
    unsigned bound_count;   /* plus one bucket above */
    uint64_t bounds[TRACE_BOUNDS_MAX];
};

extern const struct trace_metric_kind trace_metric_kinds[TRACE_METRICS];

/* The end of the range of metrics that share the name of `metric`. */
unsigned trace_metrics_end_of(unsigned metric);

/* The labels of a series. Texts may be empty, never NULL. */
struct trace_series_key {
    const char *model; /* interned by the manager: compared by pointer */
    const char *operation, *finish_reason, *error_type;
};

struct trace_series;

struct trace_histogram {
    uint64_t counts[TRACE_BOUNDS_MAX + 1]; /* by bucket, not cumulative */
    uint64_t count, sum;
};

struct trace_series_stats {
    const char *model, *operation, *finish_reason, *error_type;
    uint32_t order; /* of creation */
    bool overflow;  /* the sum of generations without a series; has no labels */
    struct trace_histogram histograms[TRACE_METRICS];
};

/* Texts are borrowed from the metrics. */
struct trace_metrics_snapshot {
    uint64_t start_unix_ns, unix_ns; /* the interval that is counted */
    size_t count;
    struct trace_series_stats *series; /* in the order of creation */
};

struct trace_metrics {
    struct trace_series *_Atomic slots[2 * TRACE_SERIES_MAX];
    atomic_uint series_count;
    struct trace_series *overflow;
    atomic_uint_least64_t generations, overflowed;
    pthread_mutex_t lock;        /* of readers */
    pthread_mutex_t create_lock; /* of threads that create a series; taken within `lock` */
    uint64_t start_unix_ns;
};

int trace_metrics_init(struct trace_metrics *m);
void trace_metrics_fini(struct trace_metrics *m);

#define TRACE_NO_VALUE UINT64_MAX

/* Counts one generation. Copies the key's texts if it creates the series. */
void trace_metrics_count(struct trace_metrics *m, const struct trace_series_key *key,
                         const uint64_t values[TRACE_METRICS]);

/* The caller frees ret->series. -ENOMEM. */
int trace_metrics_read(struct trace_metrics *m, struct trace_metrics_snapshot *ret);

/* Resets all counts in a child, because they belong to the parent. Called with the locks held. */
void trace_metrics_reset_in_child(struct trace_metrics *m);
