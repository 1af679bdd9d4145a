/* Traces as OTLP protobuf (TracesData of trace.proto). Concatenated protobuf messages are equivalent to one message
 * with all their repeated fields, so each trace is written as a complete message. */
#include "base/protobuf.h"
#include "lib/otlp/fields.h"
#include "trace/export/trace_attributes.h"
#include "trace/export/trace_format.h"
#include "trace/export/triton_text.h"

#include <string.h>

static void put_text(struct buf *out, uint32_t field, struct triton_text text)
{
    _cleanup_buf_ struct buf valid = {0};
    triton_text_put_utf8(&valid, text);
    protobuf_put_message(out, field, &valid);
}

static void put_string(struct buf *out, uint32_t field, const char *text)
{
    put_text(out, field, (struct triton_text){text, strlen(text)});
}

/* Writes `value` as an attribute value, and empties it for reuse. */
static void put_attribute(struct buf *out, uint32_t field, const char *key, struct buf *value)
{
    _cleanup_buf_ struct buf pair = {0};
    put_string(&pair, KEY_VALUE_KEY, key);
    protobuf_put_message(&pair, KEY_VALUE_VALUE, value);
    protobuf_put_message(out, field, &pair);
}

static void put_text_value(struct buf *value, struct triton_text text)
{
    put_text(value, ANY_VALUE_STRING, text);
}

static void put_trace_attribute(struct buf *out, uint32_t field, const struct trace_attribute *a)
{
    _cleanup_buf_ struct buf value = {0}, array = {0}, inner = {0};
    switch (a->kind) {
    case TRACE_ATTRIBUTE_TEXT:
        put_text_value(&value, a->text);
        break;
    case TRACE_ATTRIBUTE_TEXTS:
        put_text_value(&inner, a->text);
        protobuf_put_message(&array, ARRAY_VALUES, &inner);
        protobuf_put_message(&value, ANY_VALUE_ARRAY, &array);
        break;
    case TRACE_ATTRIBUTE_INTEGER:
        protobuf_put_oneof_number(&value, ANY_VALUE_INT, (uint64_t)a->integer);
        break;
    case TRACE_ATTRIBUTE_TRUE:
        protobuf_put_oneof_number(&value, ANY_VALUE_BOOL, 1);
        break;
    }
    put_attribute(out, field, a->key, &value);
}

static void put_attributes(struct buf *out, const struct trace_span_record *span)
{
    struct trace_attribute attributes[TRACE_ATTRIBUTES_MAX];
    size_t count = trace_attributes_of_span(span, attributes);
    for (size_t i = 0; i < count; i++)
        put_trace_attribute(out, SPAN_ATTRIBUTES, &attributes[i]);
}

static void put_event(struct buf *out, const struct span_event *from)
{
    _cleanup_buf_ struct buf event = {0};
    protobuf_put_fixed64(&event, EVENT_TIME, from->time_unix_ns);
    put_string(&event, EVENT_NAME, from->name);
    if (from->tokens) {
        struct trace_attribute tokens = trace_attribute_of_event(from);
        put_trace_attribute(&event, EVENT_ATTRIBUTES, &tokens);
    }
    protobuf_put_message(out, SPAN_EVENTS, &event);
}

static void put_status(struct buf *out, struct triton_text message)
{
    _cleanup_buf_ struct buf status = {0};
    put_text(&status, STATUS_MESSAGE, message);
    protobuf_put_number(&status, STATUS_CODE, STATUS_CODE_ERROR);
    protobuf_put_message(out, SPAN_STATUS, &status);
}

static void put_span(struct buf *out, const struct trace_span_record *span)
{
    static const uint8_t none[8];
    _cleanup_buf_ struct buf message = {0};
    struct triton_text failure;
    protobuf_put_bytes(&message, SPAN_TRACE_ID, span->trace_id, sizeof(span->trace_id));
    protobuf_put_bytes(&message, SPAN_ID, span->span_id, sizeof(span->span_id));
    if (memcmp(span->parent_span_id, none, sizeof(none)) != 0)
        protobuf_put_bytes(&message, SPAN_PARENT_ID, span->parent_span_id, sizeof(span->parent_span_id));
    put_text(&message, SPAN_NAME, (struct triton_text){span->name, span->name_size});
    protobuf_put_number(&message, SPAN_KIND, SPAN_KIND_SERVER);
    protobuf_put_fixed64(&message, SPAN_START, span->start_unix_ns);
    protobuf_put_fixed64(&message, SPAN_END, span->end_unix_ns);
    put_attributes(&message, span);
    for (size_t i = 0; i < span->event_count; i++)
        put_event(&message, &span->events[i]);
    if (triton_facts_failed(span->outcome, &failure))
        put_status(&message, failure);
    protobuf_put_message(out, SCOPE_SPANS_SPANS, &message);
}

static void put_nothing(struct buf *out)
{
    (void)out;
}

static int put_trace(struct buf *out, const struct triton_trace *trace, const struct trace_spans_options *options,
                     bool first)
{
    (void)first;
    _cleanup_(trace_spans_clear) struct trace_spans spans = {0};
    _cleanup_buf_ struct buf service = {0}, resource = {0}, scope = {0}, scope_spans = {0}, resource_spans = {0};
    int r = trace_spans_add(&spans, trace, options);
    if (r < 0 || spans.count == 0)
        return r;
    put_string(&service, ANY_VALUE_STRING, TRACE_SERVICE_NAME);
    put_attribute(&resource, RESOURCE_ATTRIBUTES, "service.name", &service);
    put_string(&scope, SCOPE_NAME, TRACE_SCOPE_NAME);
    protobuf_put_message(&scope_spans, SCOPE_SPANS_SCOPE, &scope);
    for (size_t i = 0; i < spans.count; i++)
        put_span(&scope_spans, &spans.spans[i]);
    protobuf_put_message(&resource_spans, RESOURCE_SPANS_RESOURCE, &resource);
    protobuf_put_message(&resource_spans, RESOURCE_SPANS_SCOPE_SPANS, &scope_spans);
    protobuf_put_message(out, TRACES_RESOURCE_SPANS, &resource_spans);
    return buf_error(out);
}

const struct trace_format trace_format_otlp = {"otlp", "OpenTelemetry spans as OTLP's protobuf", put_nothing, put_trace,
                                               put_nothing};
