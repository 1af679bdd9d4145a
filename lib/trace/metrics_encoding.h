/* Encodes generation metrics as an OTLP packet (ExportMetricsServiceRequest). */
#pragma once

#include "attributes.h"
#include "metrics.h"

struct sonde_trace_config;

struct trace_metrics_description {
    const struct sonde_trace_config *config;
    const char *provider; /* gen_ai.provider.name */
    const char *instance; /* service.instance.id, so that metrics of several processes are not merged */
};

void trace_metrics_put_json(struct trace_text *out, const struct trace_metrics_snapshot *s,
                            const struct trace_metrics_description *d);
void trace_metrics_put_protobuf(struct trace_text *out, const struct trace_metrics_snapshot *s,
                                const struct trace_metrics_description *d);

/* --- common to the encodings and the Prometheus text ----------------------------------------- */

struct trace_point {
    const struct trace_metric_kind *kind;
    const struct trace_histogram *histogram;
    struct trace_attributes attributes;
    size_t next; /* iterator state; initially 0 */
};

/* Iterates over the points of the metrics that share a name (`metric` is the first); points with a count of 0
 * are skipped. False: no more. */
bool trace_metrics_next_point(const struct trace_metrics_snapshot *s, unsigned metric, const char *provider,
                              struct trace_point *p);

/* Appends seconds or tokens. */
void trace_metrics_put_value(struct trace_text *out, const struct trace_metric_kind *kind, uint64_t value);
