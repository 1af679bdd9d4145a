/* Common to the encodings of metrics: which points exist, their order and attributes. */
#include "metrics_encoding.h"

bool trace_metrics_next_point(const struct trace_metrics_snapshot *s, unsigned metric, const char *provider,
                              struct trace_point *p)
{
    size_t metrics = trace_metrics_end_of(metric) - metric;
    while (p->next < s->count * metrics) {
        const struct trace_series_stats *f = &s->series[p->next / metrics];
        unsigned which = metric + (unsigned)(p->next++ % metrics);
        p->kind = &trace_metric_kinds[which];
        p->histogram = &f->histograms[which];
        if (p->histogram->count == 0)
            continue;
        trace_attributes_of_series(&p->attributes, f, provider, p->kind->token_type);
        return true;
    }
    return false;
}

void trace_metrics_put_value(struct trace_text *out, const struct trace_metric_kind *kind, uint64_t value)
{
    if (!kind->token_type) {
        trace_text_put_seconds(out, value);
        return;
    }
    trace_text_put_u64(out, value);
    trace_text_puts(out, ".0");
}
