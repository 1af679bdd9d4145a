/* The figures of generations as a packet of OTLP (ExportMetricsServiceRequest). */
#pragma once

#include "attributes.h"
#include "metrics.h"

struct sonde_trace_config;

struct trace_metrics_description {
    const struct sonde_trace_config *config;
    const char *provider; /* gen_ai.provider.name */
    const char *instance; /* service.instance.id: who counts, so that nobody adds two processes to one */
};

void trace_metrics_put_json(struct trace_text *out, const struct trace_metrics_snapshot *s,
                            const struct trace_metrics_description *d);
void trace_metrics_put_protobuf(struct trace_text *out, const struct trace_metrics_snapshot *s,
                                const struct trace_metrics_description *d);

/* --- what the encodings have in common, with the text for Prometheus ------------------------- */

struct trace_point {
    const struct trace_metric_kind *kind;
    const struct trace_histogram *histogram;
    struct trace_attributes attributes;
    size_t next; /* begins with 0 */
};

/* The next point of the metrics of one name, of which `metric` is the first; those of which nothing was
 * counted are left out. False: there is none. */
bool trace_metrics_next_point(const struct trace_metrics_snapshot *s, unsigned metric, const char *provider,
                              struct trace_point *p);

/* Seconds or tokens. */
void trace_metrics_put_value(struct trace_text *out, const struct trace_metric_kind *kind, uint64_t value);
