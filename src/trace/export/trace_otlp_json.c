/* Traces as one OTLP/JSON object (TracesData). As OTLP requires, identifiers are hexadecimal and 64-bit integers are
 * strings. */
#include "trace/export/trace_attributes.h"
#include "trace/export/trace_format.h"
#include "trace/export/triton_text.h"

#include <inttypes.h>
#include <string.h>

static void put_id(struct buf *out, const char *key, const uint8_t *id, size_t size)
{
    buf_printf(out, "\"%s\":\"", key);
    for (size_t i = 0; i < size; i++)
        buf_printf(out, "%02x", id[i]);
    buf_puts(out, "\",");
}

static void put_attribute(struct buf *out, const struct trace_attribute *a, const char *before)
{
    buf_printf(out, "%s{\"key\":\"%s\",\"value\":{", before, a->key);
    switch (a->kind) {
    case TRACE_ATTRIBUTE_TEXT:
        buf_puts(out, "\"stringValue\":");
        triton_text_put_json(out, a->text);
        break;
    case TRACE_ATTRIBUTE_TEXTS:
        buf_puts(out, "\"arrayValue\":{\"values\":[{\"stringValue\":");
        triton_text_put_json(out, a->text);
        buf_puts(out, "}]}");
        break;
    case TRACE_ATTRIBUTE_INTEGER:
        buf_printf(out, "\"intValue\":\"%" PRId64 "\"", a->integer);
        break;
    case TRACE_ATTRIBUTE_TRUE:
        buf_puts(out, "\"boolValue\":true");
        break;
    }
    buf_puts(out, "}}");
}

static void put_attributes(struct buf *out, const struct trace_span_record *span)
{
    struct trace_attribute attributes[TRACE_ATTRIBUTES_MAX];
    size_t count = trace_attributes_of_span(span, attributes);
    for (size_t i = 0; i < count; i++)
        put_attribute(out, &attributes[i], i ? "," : ",\"attributes\":[");
    if (count)
        buf_putc(out, ']');
}

static void put_event(struct buf *out, const struct span_event *event, const char *before)
{
    buf_printf(out, "%s{\"timeUnixNano\":\"%" PRIu64 "\",\"name\":", before, event->time_unix_ns);
    buf_put_json_string(out, event->name);
    if (event->tokens) {
        struct trace_attribute tokens = trace_attribute_of_event(event);
        put_attribute(out, &tokens, ",\"attributes\":[");
        buf_putc(out, ']');
    }
    buf_putc(out, '}');
}

static void put_span(struct buf *out, const struct trace_span_record *span)
{
    static const uint8_t none[8];
    struct triton_text message;
    buf_putc(out, '{');
    put_id(out, "traceId", span->trace_id, sizeof(span->trace_id));
    put_id(out, "spanId", span->span_id, sizeof(span->span_id));
    if (memcmp(span->parent_span_id, none, sizeof(none)) != 0)
        put_id(out, "parentSpanId", span->parent_span_id, sizeof(span->parent_span_id));
    buf_puts(out, "\"name\":");
    triton_text_put_json(out, (struct triton_text){span->name, span->name_size});
    buf_printf(out, ",\"kind\":2,\"startTimeUnixNano\":\"%" PRIu64 "\",\"endTimeUnixNano\":\"%" PRIu64 "\"",
               span->start_unix_ns, span->end_unix_ns);
    put_attributes(out, span);
    for (size_t i = 0; i < span->event_count; i++)
        put_event(out, &span->events[i], i ? "," : ",\"events\":[");
    if (span->event_count)
        buf_putc(out, ']');
    if (triton_facts_failed(span->outcome, &message)) {
        buf_puts(out, ",\"status\":{\"code\":2,\"message\":");
        triton_text_put_json(out, message);
        buf_putc(out, '}');
    }
    buf_putc(out, '}');
}

static void begin_traces(struct buf *out)
{
    buf_puts(
        out,
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":\"" TRACE_SERVICE_NAME
        "\"}}]},"
        "\"scopeSpans\":[{\"scope\":{\"name\":\"" TRACE_SCOPE_NAME "\"},\"spans\":[");
}

static int put_trace(struct buf *out, const struct triton_trace *trace, const struct trace_spans_options *options,
                     bool first)
{
    _cleanup_(trace_spans_clear) struct trace_spans spans = {0};
    int r = trace_spans_add(&spans, trace, options);
    for (size_t i = 0; i < spans.count && r == 0; i++) {
        buf_puts(out, first && i == 0 ? "\n" : ",\n");
        put_span(out, &spans.spans[i]);
    }
    return r < 0 ? r : buf_error(out);
}

static void end_traces(struct buf *out)
{
    buf_puts(out, "\n]}]}]}\n");
}

const struct trace_format trace_format_otlp_json = {"otlp-json", "OpenTelemetry spans as OTLP/JSON", begin_traces,
                                                    put_trace, end_traces};
