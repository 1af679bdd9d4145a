/* Generation metrics as Prometheus text, for a server's own /metrics. Names and labels follow OpenTelemetry's
 * Prometheus mapping, except for finish reasons: `stop`, where a collector writes `["stop"]` for OTLP's list. */
#include "../export.h"
#include "attributes.h"
#include "manager.h"
#include "metrics_encoding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Maps OpenTelemetry's name to Prometheus'. */
static void put_name(struct trace_text *out, const char *name)
{
    for (; *name; name++)
        trace_text_putc(out, *name == '.' ? '_' : *name);
}

static void put_metric(struct trace_text *out, const struct trace_metric_kind *kind, const char *suffix)
{
    put_name(out, kind->name);
    trace_text_puts(out, kind->token_type ? "" : "_seconds");
    trace_text_puts(out, suffix);
}

/* UTF-8 with the three escapes of the format. */
static void put_value(struct trace_text *out, struct trace_text *scratch, const struct trace_attribute *a)
{
    trace_text_clear(scratch);
    if (a->kind == TRACE_ATTRIBUTE_TRUE)
        trace_text_puts(scratch, "true");
    else
        trace_text_put_utf8(scratch, a->text, a->size);
    out->failed |= scratch->failed;
    for (size_t i = 0; i < scratch->size; i++) {
        char c = scratch->data[i];
        if (c == '\n' || c == '"' || c == '\\')
            trace_text_putc(out, '\\');
        trace_text_putc(out, c == '\n' ? 'n' : c);
    }
}

static void put_labels(struct trace_text *out, struct trace_text *scratch, const struct trace_attributes *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (i > 0)
            trace_text_putc(out, ',');
        put_name(out, a->list[i].key);
        trace_text_puts(out, "=\"");
        put_value(out, scratch, &a->list[i]);
        trace_text_putc(out, '"');
    }
}

/* `labels` are already formatted. */
static void put_point(struct trace_text *out, const struct trace_metric_kind *kind, const struct trace_histogram *h,
                      const struct trace_text *labels)
{
    uint64_t so_far = 0;
    for (unsigned i = 0; i <= kind->bound_count; i++) {
        so_far += h->counts[i];
        put_metric(out, kind, "_bucket{");
        trace_text_put(out, labels->data, labels->size);
        trace_text_puts(out, ",le=\"");
        if (i < kind->bound_count)
            trace_metrics_put_value(out, kind, kind->bounds[i]);
        else
            trace_text_puts(out, "+Inf");
        trace_text_puts(out, "\"} ");
        trace_text_put_u64(out, so_far);
        trace_text_putc(out, '\n');
    }
    put_metric(out, kind, "_sum{");
    trace_text_put(out, labels->data, labels->size);
    trace_text_puts(out, "} ");
    trace_metrics_put_value(out, kind, h->sum);
    trace_text_putc(out, '\n');
    put_metric(out, kind, "_count{");
    trace_text_put(out, labels->data, labels->size);
    trace_text_puts(out, "} ");
    trace_text_put_u64(out, h->count);
    trace_text_putc(out, '\n');
}

/* Writes all metrics of one name. */
static void put_family(struct trace_text *out, const struct trace_metrics_snapshot *s, unsigned metric,
                       const char *provider)
{
    const struct trace_metric_kind *kind = &trace_metric_kinds[metric];
    struct trace_text labels = {0}, scratch = {0};
    trace_text_puts(out, "# HELP ");
    put_metric(out, kind, " ");
    trace_text_puts(out, kind->description);
    trace_text_puts(out, "\n# TYPE ");
    put_metric(out, kind, " histogram\n");
    for (struct trace_point p = {0}; trace_metrics_next_point(s, metric, provider, &p);) {
        trace_text_clear(&labels);
        put_labels(&labels, &scratch, &p.attributes);
        put_point(out, p.kind, p.histogram, &labels);
    }
    out->failed |= labels.failed;
    trace_text_free(&labels);
    trace_text_free(&scratch);
}

SONDE_EXPORT int sonde_trace_metrics(struct sonde_trace_manager *m, char **ret_text)
{
    struct trace_metrics_snapshot snapshot;
    struct trace_text out = {0};
    int r = trace_metrics_read(&m->metrics, &snapshot);
    if (r < 0)
        return r;
    for (unsigned i = 0; i < TRACE_METRICS; i = trace_metrics_end_of(i))
        put_family(&out, &snapshot, i, m->provider);
    free(snapshot.series);
    char *text = trace_text_take(&out);
    if (!text)
        return -ENOMEM;
    *ret_text = text;
    return 0;
}
