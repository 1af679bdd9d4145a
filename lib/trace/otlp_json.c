/* Encodes a packet as OTLP/JSON: lowerCamelCase, ids in hexadecimal, 64-bit numbers as strings. */
#include "attributes.h"
#include "encoding.h"
#include "format.h"

#include <string.h>

static void put_id(struct trace_text *out, const char *key, const void *id, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    trace_text_puts(out, key);
    for (size_t i = 0; i < size; i++) {
        trace_text_putc(out, hex[((const uint8_t *)id)[i] >> 4]);
        trace_text_putc(out, hex[((const uint8_t *)id)[i] & 15]);
    }
    trace_text_putc(out, '"');
}

/* Writes the comma of a list, except after the opening bracket. */
static void put_comma(struct trace_text *out)
{
    if (out->size > 0 && out->data[out->size - 1] != '[')
        trace_text_putc(out, ',');
}

static void put_attributes(struct trace_text *out, const struct trace_attributes *a)
{
    trace_text_puts(out, ",\"attributes\":[");
    trace_attributes_put_json(out, a);
    trace_text_putc(out, ']');
}

static void put_events(struct trace_text *out, const struct trace_tree *tree, const struct trace_spans *spans,
                       uint32_t first)
{
    struct trace_attributes attributes;
    trace_text_puts(out, ",\"events\":[");
    for (uint32_t i = first; i != TRACE_NO_EVENT; i = spans->events[i].next) {
        const struct trace_record *r = spans->events[i].record;
        size_t size;
        const char *name = trace_record_name(r, &size);
        put_comma(out);
        trace_text_puts(out, "{\"name\":");
        trace_text_put_json(out, name, size);
        trace_text_put_quoted_u64(out, ",\"timeUnixNano\":\"", trace_unix_ns(tree, r->ns));
        trace_attributes_of_event(&attributes, r);
        if (attributes.count > 0)
            put_attributes(out, &attributes);
        trace_text_putc(out, '}');
    }
    trace_text_putc(out, ']');
}

static void put_status(struct trace_text *out, const struct trace_span *span)
{
    size_t size;
    const char *message = trace_outcome(span, &size);
    if (!message)
        return;
    trace_text_puts(out, ",\"status\":{\"code\":2,\"message\":");
    trace_text_put_json(out, message, size);
    trace_text_putc(out, '}');
}

static void put_span(struct trace_packet *p, const struct trace_tree *tree, const struct trace_spans *spans,
                     const struct trace_span *span)
{
    struct trace_text *out = &p->text;
    put_comma(out);
    put_id(out, "{\"traceId\":\"", tree->context.trace_id, sizeof(tree->context.trace_id));
    put_id(out, ",\"spanId\":\"", &span->id, sizeof(span->id));
    if (span->parent_id)
        put_id(out, ",\"parentSpanId\":\"", &span->parent_id, sizeof(span->parent_id));
    if (tree->tracestate) {
        trace_text_puts(out, ",\"traceState\":");
        trace_text_put_json(out, tree->tracestate, strlen(tree->tracestate));
    }
    trace_text_puts(out, ",\"name\":");
    trace_text_put_json(out, span->name, span->name_size);
    trace_text_put_quoted_u64(out, ",\"kind\":2,\"startTimeUnixNano\":\"", trace_unix_ns(tree, span->start_ns));
    trace_text_put_quoted_u64(out, ",\"endTimeUnixNano\":\"", trace_unix_ns(tree, span->end_ns));
    if (span->model) {
        struct trace_attributes attributes;
        trace_attributes_of_span(&attributes, span->model);
        put_attributes(out, &attributes);
    }
    if (span->first_event != TRACE_NO_EVENT)
        put_events(out, tree, spans, span->first_event);
    if (span->dropped_events > 0) {
        trace_text_puts(out, ",\"droppedEventsCount\":");
        trace_text_put_u64(out, span->dropped_events);
    }
    put_status(out, span);
    trace_text_putc(out, '}');
    p->spans++;
}

static void begin(struct trace_packet *p, const struct sonde_trace_config *config)
{
    trace_text_puts(&p->text, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    trace_resource_put_json(&p->text, config, NULL);
    trace_text_puts(&p->text, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"" TRACE_SCOPE_NAME "\"},\"spans\":[");
}

static void end(struct trace_packet *p)
{
    trace_text_puts(&p->text, "]}]}]}");
}

const struct trace_encoding trace_encoding_json = {begin, put_span, end};
