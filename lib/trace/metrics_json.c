/* Histograms as OTLP/JSON: 64-bit integers are strings, sums and bounds are numbers. */
#include "metrics_encoding.h"

#define CUMULATIVE "2"

static void put_point(struct trace_text *out, const struct trace_point *p, const struct trace_metrics_snapshot *s)
{
    trace_text_puts(out, "{\"attributes\":[");
    trace_attributes_put_json(out, &p->attributes);
    trace_text_put_quoted_u64(out, "],\"startTimeUnixNano\":\"", s->start_unix_ns);
    trace_text_put_quoted_u64(out, ",\"timeUnixNano\":\"", s->unix_ns);
    trace_text_put_quoted_u64(out, ",\"count\":\"", p->histogram->count);
    trace_text_puts(out, ",\"sum\":");
    trace_metrics_put_value(out, p->kind, p->histogram->sum);
    trace_text_puts(out, ",\"bucketCounts\":[");
    for (unsigned i = 0; i <= p->kind->bound_count; i++)
        trace_text_put_quoted_u64(out, i > 0 ? ",\"" : "\"", p->histogram->counts[i]);
    trace_text_puts(out, "],\"explicitBounds\":[");
    for (unsigned i = 0; i < p->kind->bound_count; i++) {
        if (i > 0)
            trace_text_putc(out, ',');
        trace_metrics_put_value(out, p->kind, p->kind->bounds[i]);
    }
    trace_text_puts(out, "]}");
}

/* Writes nothing if nothing was counted. */
static void put_metric(struct trace_text *out, const struct trace_metrics_snapshot *s, unsigned metric,
                       const char *provider)
{
    const struct trace_metric_kind *kind = &trace_metric_kinds[metric];
    size_t before = out->size, points = 0;
    trace_text_puts(out, before > 0 && out->data[before - 1] == '[' ? "{\"name\":\"" : ",{\"name\":\"");
    trace_text_puts(out, kind->name);
    trace_text_puts(out, "\",\"description\":\"");
    trace_text_puts(out, kind->description);
    trace_text_puts(out, "\",\"unit\":\"");
    trace_text_puts(out, kind->token_type ? "{token}" : "s");
    trace_text_puts(out, "\",\"histogram\":{\"aggregationTemporality\":" CUMULATIVE ",\"dataPoints\":[");
    for (struct trace_point p = {0}; trace_metrics_next_point(s, metric, provider, &p); points++) {
        if (points > 0)
            trace_text_putc(out, ',');
        put_point(out, &p, s);
    }
    trace_text_puts(out, "]}}");
    if (points == 0)
        out->size = before;
}

void trace_metrics_put_json(struct trace_text *out, const struct trace_metrics_snapshot *s,
                            const struct trace_metrics_description *d)
{
    trace_text_puts(out, "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[");
    trace_resource_put_json(out, d->config, d->instance);
    trace_text_puts(out, "]},\"scopeMetrics\":[{\"scope\":{\"name\":\"libsonde\"},\"metrics\":[");
    for (unsigned i = 0; i < TRACE_METRICS; i = trace_metrics_end_of(i))
        put_metric(out, s, i, d->provider);
    trace_text_puts(out, "]}]}]}");
}
