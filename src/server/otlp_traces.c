/* Spans as rows of otel_traces; see otlp_rows.h. */
#include "server/otlp_attributes.h"
#include "server/otlp_fields.h"
#include "server/otlp_json.h"
#include "server/otlp_rows.h"
#include "server/row_binary.h"

#include <errno.h>

struct span {
    struct cursor trace_id, span_id, parent_id, trace_state, name, status_message;
    uint64_t kind, start_ns, end_ns, status_code;
    bool has_events_or_links;
};

static int read_status(struct cursor c, struct span *ret)
{
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f)) {
        if (f.number == STATUS_MESSAGE)
            ret->status_message = otlp_inside(&c, &f);
        else if (f.number == STATUS_CODE)
            ret->status_code = otlp_number(&c, &f, PROTOBUF_VARINT);
    }
    return c.failed ? -EBADMSG : 0;
}

static int read_span(struct cursor c, struct span *ret)
{
    struct protobuf_field f;
    int r = 0;
    while (protobuf_next_field(&c, &f))
        switch (f.number) {
        case SPAN_TRACE_ID:
            ret->trace_id = otlp_inside(&c, &f);
            break;
        case SPAN_ID:
            ret->span_id = otlp_inside(&c, &f);
            break;
        case SPAN_TRACE_STATE:
            ret->trace_state = otlp_inside(&c, &f);
            break;
        case SPAN_PARENT_ID:
            ret->parent_id = otlp_inside(&c, &f);
            break;
        case SPAN_NAME:
            ret->name = otlp_inside(&c, &f);
            break;
        case SPAN_KIND:
            ret->kind = otlp_number(&c, &f, PROTOBUF_VARINT);
            break;
        case SPAN_START:
            ret->start_ns = otlp_number(&c, &f, PROTOBUF_FIXED64);
            break;
        case SPAN_END:
            ret->end_ns = otlp_number(&c, &f, PROTOBUF_FIXED64);
            break;
        case SPAN_EVENTS:
        case SPAN_LINKS:
            ret->has_events_or_links = true;
            break;
        case SPAN_STATUS:
            r = read_status(otlp_inside(&c, &f), ret) ?: r;
            break;
        }
    return c.failed ? -EBADMSG : r;
}

/* ---- events and links: one array for each of their columns ---- */

static int put_texts(struct buf *row, struct cursor span, uint32_t number, uint32_t field, bool as_hex)
{
    struct protobuf_field f, g;
    row_put_count(row, otlp_count(span, number));
    while (protobuf_next_field(&span, &f)) {
        if (f.number != number)
            continue;
        struct cursor c = otlp_inside(&span, &f), text = {0};
        while (protobuf_next_field(&c, &g))
            if (g.number == field)
                text = otlp_inside(&c, &g);
        if (c.failed)
            return -EBADMSG;
        if (as_hex)
            row_put_hex(row, text);
        else
            row_put_text(row, text);
    }
    return span.failed ? -EBADMSG : 0;
}

static int put_event_times(struct buf *row, struct cursor span)
{
    struct protobuf_field f, g;
    row_put_count(row, otlp_count(span, SPAN_EVENTS));
    while (protobuf_next_field(&span, &f)) {
        if (f.number != SPAN_EVENTS)
            continue;
        struct cursor c = otlp_inside(&span, &f);
        uint64_t time_ns = 0;
        while (protobuf_next_field(&c, &g))
            if (g.number == EVENT_TIME)
                time_ns = otlp_number(&c, &g, PROTOBUF_FIXED64);
        if (c.failed)
            return -EBADMSG;
        row_put_u64(row, time_ns <= INT64_MAX ? time_ns : 0);
    }
    return span.failed ? -EBADMSG : 0;
}

#define EVENT_AND_LINK_COLUMNS 7
static int put_events_and_links(struct buf *row, struct cursor span, bool has_any, uint64_t *elements)
{
    if (!has_any) { /* most spans: not worth as many passes through their fields */
        for (int i = 0; i < EVENT_AND_LINK_COLUMNS; i++)
            row_put_count(row, 0);
        return 0;
    }
    return put_event_times(row, span)
               ?: put_texts(row, span, SPAN_EVENTS, EVENT_NAME, false)
               ?: otlp_put_maps(row, span, SPAN_EVENTS, EVENT_ATTRIBUTES, elements)
               ?: put_texts(row, span, SPAN_LINKS, SPAN_LINK_TRACE_ID, true)
               ?: put_texts(row, span, SPAN_LINKS, SPAN_LINK_SPAN_ID, true)
               ?: put_texts(row, span, SPAN_LINKS, SPAN_LINK_TRACE_STATE, false)
               ?: otlp_put_maps(row, span, SPAN_LINKS, SPAN_LINK_ATTRIBUTES, elements);
}

/* ---- rows ---- */

static const char *kind_name(uint64_t kind)
{
    static const char *const names[] = {"Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"};
    return kind < array_size(names) ? names[kind] : names[0];
}

static const char *status_name(uint64_t code)
{
    static const char *const names[] = {"Unset", "Ok", "Error"};
    return code < array_size(names) ? names[code] : names[0];
}

static int put_row(struct buf *row, struct cursor item, const struct span *span, const struct otlp_resource *resource,
                   const struct otlp_scope *scope, uint64_t *elements)
{
    row_put_u64(row, span->start_ns);
    row_put_hex(row, span->trace_id);
    row_put_hex(row, span->span_id);
    row_put_hex(row, otlp_id_is_valid(span->parent_id, 8) ? span->parent_id : (struct cursor){0});
    row_put_text(row, span->trace_state);
    row_put_text(row, span->name);
    row_put_name(row, kind_name(span->kind));
    buf_append(row, resource->service.data, resource->service.size);
    buf_append(row, resource->attributes.data, resource->attributes.size);
    row_put_text(row, scope->name);
    row_put_text(row, scope->version);
    const int r = otlp_put_attributes(row, item, SPAN_ATTRIBUTES, elements);
    *elements += resource->elements;
    row_put_u64(row, span->end_ns > span->start_ns ? span->end_ns - span->start_ns : 0);
    row_put_name(row, status_name(span->status_code));
    row_put_text(row, span->status_message);
    return r < 0 ? r : put_events_and_links(row, item, span->has_events_or_links, elements);
}

static int decode_span(struct cursor item, const struct otlp_resource *resource, const struct otlp_scope *scope,
                       struct otlp_rows *rows)
{
    struct span span = {0};
    int r = read_span(item, &span);
    if (r < 0)
        return r;
    if (!otlp_id_is_valid(span.trace_id, 16) || !otlp_id_is_valid(span.span_id, 8)) {
        otlp_reject(rows, "its trace id or span id is not valid");
        return 0;
    }
    if (!otlp_accepts_time(rows, span.start_ns))
        return 0;
    rows->counts[TABLE_TRACES]++;
    return put_row(&rows->tables[TABLE_TRACES], item, &span, resource, scope, &rows->elements);
}

static int decode_traces(struct cursor request, struct otlp_rows *rows)
{
    return otlp_walk(request, rows, decode_span);
}

const struct otlp_signal otlp_traces = {
    .path = "/v1/traces",
    .method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    .rejected = "rejectedSpans",
    .json = otlp_json_traces,
    .decode = decode_traces,
};
