/* Encodes a packet as OTLP protobuf (ExportTraceServiceRequest of trace_service.proto). */
#include "../otlp/fields.h"
#include "attributes.h"
#include "encoding.h"
#include "format.h"
#include "protobuf.h"

#include <string.h>

static void put_events(struct trace_text *out, const struct trace_tree *tree, const struct trace_spans *spans,
                       uint32_t first)
{
    struct trace_attributes attributes;
    for (uint32_t i = first; i != TRACE_NO_EVENT; i = spans->events[i].next) {
        const struct trace_record *r = spans->events[i].record;
        size_t size, event = trace_protobuf_open(out, SPAN_EVENTS);
        const char *name = trace_record_name(r, &size);
        trace_protobuf_fixed64(out, EVENT_TIME, trace_unix_ns(tree, r->ns));
        trace_protobuf_text(out, EVENT_NAME, name, size);
        trace_attributes_of_event(&attributes, r);
        trace_attributes_put_protobuf(out, EVENT_ATTRIBUTES, &attributes);
        trace_protobuf_close(out, event);
    }
}

static void put_status(struct trace_text *out, const struct trace_span *span)
{
    size_t size;
    const char *message = trace_outcome(span, &size);
    if (!message)
        return;
    size_t status = trace_protobuf_open(out, SPAN_STATUS);
    trace_protobuf_text(out, STATUS_MESSAGE, message, size);
    trace_protobuf_number(out, STATUS_CODE, STATUS_CODE_ERROR);
    trace_protobuf_close(out, status);
}

static void put_span(struct trace_packet *p, const struct trace_tree *tree, const struct trace_spans *spans,
                     const struct trace_span *span)
{
    struct trace_text *out = &p->text;
    size_t message = trace_protobuf_open(out, SCOPE_SPANS_SPANS);
    trace_protobuf_bytes(out, SPAN_TRACE_ID, tree->context.trace_id, sizeof(tree->context.trace_id));
    trace_protobuf_bytes(out, SPAN_ID, &span->id, sizeof(span->id));
    if (tree->tracestate)
        trace_protobuf_text(out, SPAN_TRACE_STATE, tree->tracestate, strlen(tree->tracestate));
    if (span->parent_id)
        trace_protobuf_bytes(out, SPAN_PARENT_ID, &span->parent_id, sizeof(span->parent_id));
    trace_protobuf_text(out, SPAN_NAME, span->name, span->name_size);
    trace_protobuf_number(out, SPAN_KIND, SPAN_KIND_SERVER);
    trace_protobuf_fixed64(out, SPAN_START, trace_unix_ns(tree, span->start_ns));
    trace_protobuf_fixed64(out, SPAN_END, trace_unix_ns(tree, span->end_ns));
    if (span->model) {
        struct trace_attributes attributes;
        trace_attributes_of_span(&attributes, span->model);
        trace_attributes_put_protobuf(out, SPAN_ATTRIBUTES, &attributes);
    }
    put_events(out, tree, spans, span->first_event);
    if (span->dropped_events > 0)
        trace_protobuf_number(out, SPAN_DROPPED_EVENTS, span->dropped_events);
    put_status(out, span);
    trace_protobuf_close(out, message);
    p->spans++;
}

static void begin(struct trace_packet *p, const struct sonde_trace_config *config)
{
    p->resource_spans = trace_protobuf_open(&p->text, TRACES_RESOURCE_SPANS);
    size_t resource = trace_protobuf_open(&p->text, RESOURCE_SPANS_RESOURCE);
    trace_resource_put_protobuf(&p->text, RESOURCE_ATTRIBUTES, config, NULL);
    trace_protobuf_close(&p->text, resource);
    p->scope_spans = trace_protobuf_open(&p->text, RESOURCE_SPANS_SCOPE_SPANS);
    size_t scope = trace_protobuf_open(&p->text, SCOPE_SPANS_SCOPE);
    trace_protobuf_text(&p->text, SCOPE_NAME, TRACE_SCOPE_NAME, strlen(TRACE_SCOPE_NAME));
    trace_protobuf_close(&p->text, scope);
}

static void end(struct trace_packet *p)
{
    trace_protobuf_close(&p->text, p->scope_spans);
    trace_protobuf_close(&p->text, p->resource_spans);
}

const struct trace_encoding trace_encoding_protobuf = {begin, put_span, end};
