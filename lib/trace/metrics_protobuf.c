/* Histograms as OTLP protobuf. */
#include "../otlp/fields.h"
#include "metrics_encoding.h"
#include "protobuf.h"

#include <string.h>

static void put_text(struct trace_text *out, unsigned field, const char *text)
{
    trace_protobuf_text(out, field, text, strlen(text));
}

/* Seconds or tokens. */
static double value_of(const struct trace_metric_kind *kind, uint64_t value)
{
    return kind->token_type ? (double)value : (double)value / 1e9;
}

static void put_point(struct trace_text *out, const struct trace_point *p, const struct trace_metrics_snapshot *s)
{
    size_t point = trace_protobuf_open(out, METRIC_DATA_POINTS);
    trace_protobuf_fixed64(out, HISTOGRAM_POINT_START, s->start_unix_ns);
    trace_protobuf_fixed64(out, HISTOGRAM_POINT_TIME, s->unix_ns);
    trace_protobuf_fixed64(out, HISTOGRAM_POINT_COUNT, p->histogram->count);
    trace_protobuf_double(out, HISTOGRAM_POINT_SUM, value_of(p->kind, p->histogram->sum));
    size_t packed = trace_protobuf_open(out, HISTOGRAM_POINT_BUCKETS);
    for (unsigned i = 0; i <= p->kind->bound_count; i++)
        trace_protobuf_packed_fixed64(out, p->histogram->counts[i]);
    trace_protobuf_close(out, packed);
    packed = trace_protobuf_open(out, HISTOGRAM_POINT_BOUNDS);
    for (unsigned i = 0; i < p->kind->bound_count; i++)
        trace_protobuf_packed_double(out, value_of(p->kind, p->kind->bounds[i]));
    trace_protobuf_close(out, packed);
    trace_attributes_put_protobuf(out, HISTOGRAM_POINT_ATTRIBUTES, &p->attributes);
    trace_protobuf_close(out, point);
}

/* Writes nothing if nothing was counted. */
static void put_metric(struct trace_text *out, const struct trace_metrics_snapshot *s, unsigned metric,
                       const char *provider)
{
    const struct trace_metric_kind *kind = &trace_metric_kinds[metric];
    size_t before = out->size, points = 0;
    size_t message = trace_protobuf_open(out, SCOPE_METRICS_METRICS);
    put_text(out, METRIC_NAME, kind->name);
    put_text(out, METRIC_DESCRIPTION, kind->description);
    put_text(out, METRIC_UNIT, kind->token_type ? "{token}" : "s");
    size_t histogram = trace_protobuf_open(out, METRIC_DATA_HISTOGRAM);
    for (struct trace_point p = {0}; trace_metrics_next_point(s, metric, provider, &p); points++)
        put_point(out, &p, s);
    trace_protobuf_number(out, METRIC_DATA_TEMPORALITY, TEMPORALITY_CUMULATIVE);
    trace_protobuf_close(out, histogram);
    trace_protobuf_close(out, message);
    if (points == 0)
        out->size = before;
}

void trace_metrics_put_protobuf(struct trace_text *out, const struct trace_metrics_snapshot *s,
                                const struct trace_metrics_description *d)
{
    size_t resource_metrics = trace_protobuf_open(out, METRICS_RESOURCE_METRICS);
    size_t resource = trace_protobuf_open(out, RESOURCE_METRICS_RESOURCE);
    trace_resource_put_protobuf(out, RESOURCE_ATTRIBUTES, d->config, d->instance);
    trace_protobuf_close(out, resource);
    size_t scope_metrics = trace_protobuf_open(out, RESOURCE_METRICS_SCOPE_METRICS);
    size_t scope = trace_protobuf_open(out, SCOPE_METRICS_SCOPE);
    put_text(out, SCOPE_NAME, "libsonde");
    trace_protobuf_close(out, scope);
    for (unsigned i = 0; i < TRACE_METRICS; i = trace_metrics_end_of(i))
        put_metric(out, s, i, d->provider);
    trace_protobuf_close(out, scope_metrics);
    trace_protobuf_close(out, resource_metrics);
}
