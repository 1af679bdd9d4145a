/* Metrics about the node and about Sonde itself, in Prometheus' data model: collected into a set by the modules that
 * own the values, written by export/openmetrics.c. Names follow Prometheus' rules: base units; the exporter appends
 * `_total` to counters. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

enum metric_type { METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM, METRIC_INFO };

struct metric_label {
    const char *name, *value;
};

struct metric_set;

/* An empty set; the caller frees `*ret`. -ENOMEM. */
int metric_set_new(struct metric_set **ret);
/* Returns the set, which now needs one more call of metric_set_free. The set must not change any more. Any thread. */
struct metric_set *metric_set_ref(struct metric_set *set);
void metric_set_free(struct metric_set *set);
DEFINE_FREEP(metric_set)

/* Adds one point. The family is created with its first point (`name` without `_total`; `unit` is "" or the name's
 * last word, such as "seconds"; type and unit of the family stay the same). All strings are copied. At most 10 labels.
 * On failure the point is not added, and the set keeps the error: see metric_set_error. */
void metric_add(struct metric_set *set, const char *name, enum metric_type type, const char *unit, const char *help,
                double value, const struct metric_label *labels, size_t label_count);

/* Adds a histogram point: `counts[i]` observations <= `bounds[i]` and > the bound before; counts[bound_count] the
 * rest (+Inf). Bounds must ascend (-EINVAL). Both arrays are copied. */
void metric_add_histogram(struct metric_set *set, const char *name, const char *unit, const char *help,
                          const double *bounds, const uint64_t *counts, size_t bound_count, double sum,
                          const struct metric_label *labels, size_t label_count);

/* A measured value of a bucket, and the trace that it belongs to. */
struct metric_exemplar {
    double value;
    uint64_t unix_ns;
    const char *trace_id, *span_id; /* hexadecimal */
};

/* Sets the exemplar of a bucket of the point that metric_add_histogram has just added; ignored if that failed. Strings
 * are copied. */
void metric_add_exemplar(struct metric_set *set, size_t bucket, const struct metric_exemplar *exemplar);

/* Adds all points of another set, which stays as it is, and its error. */
void metric_add_set(struct metric_set *set, const struct metric_set *other);

int metric_set_error(const struct metric_set *set);

#define METRIC_LABELS(...)                                                                                             \
    (const struct metric_label[]){__VA_ARGS__}, array_size(((const struct metric_label[]){__VA_ARGS__}))
#define METRIC_NO_LABELS NULL, 0

/* For the exporter: families in order of first use, points in order of adding. */
struct metric_point {
    double value; /* histogram: the sum */
    struct metric_label labels[10];
    size_t label_count;
    const double *bounds; /* histogram only */
    const uint64_t *counts;
    size_t bound_count;
    const struct metric_exemplar *exemplars; /* of each bucket, trace_id NULL: none; NULL: of none */
};
struct metric_family {
    const char *name, *unit, *help;
    enum metric_type type;
    const struct metric_point *points;
    size_t point_count;
};
size_t metric_set_families(const struct metric_set *set);
struct metric_family metric_set_family(const struct metric_set *set, size_t i);
