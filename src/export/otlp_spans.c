/* See otlp_spans.h. Spans are encoded one by one into the packet of the moment. A span that does not fit any more ends
 * the packet. */
#include "export/otlp_spans.h"

#include "base/protobuf.h"
#include "export/otlp_attributes.h"
#include "lib/otlp/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES  6 /* at most, of a message within a packet: its field number and size */
#define NAME_BYTES    256
#define ADDRESS_BYTES 64

struct writer {
    const struct otlp_spans_options *o;
    const struct otlp_spans_sink *sink;
    const struct request *resource_of; /* its service is the current resource; NULL: no resource yet */
    struct buf resource;               /* Resource */
    struct buf scope;                  /* field of ScopeSpans, the same in all packets */
    struct buf spans;                  /* ScopeSpans.spans of the current resource */
    struct buf span, part, scope_spans, resource_spans;
    struct buf packet; /* TracesData.resource_spans that are complete */
    uint64_t packet_spans, too_large;
    struct otlp_scratch scratch;
};

static void writer_clear(struct writer *w)
{
    buf_clear(&w->resource);
    buf_clear(&w->scope);
    buf_clear(&w->spans);
    buf_clear(&w->span);
    buf_clear(&w->part);
    buf_clear(&w->scope_spans);
    buf_clear(&w->resource_spans);
    buf_clear(&w->packet);
    otlp_scratch_clear(&w->scratch);
}

static int writer_error(const struct writer *w)
{
    const struct buf *const bufs[] = {&w->resource, &w->scope,       &w->spans,          &w->span,
                                      &w->part,     &w->scope_spans, &w->resource_spans, &w->packet};
    for (size_t i = 0; i < array_size(bufs); i++)
        if (buf_error(bufs[i]) < 0)
            return buf_error(bufs[i]);
    return otlp_scratch_error(&w->scratch);
}

/* ---- attributes ---- */

/* Nothing for an empty text. */
static void put_text(struct writer *w, const char *key, const char *text)
{
    if (text && text[0])
        otlp_put_attribute(&w->span, SPAN_ATTRIBUTES, key, text, 0, &w->scratch);
}

static void put_number(struct writer *w, const char *key, uint64_t number)
{
    otlp_put_attribute(&w->span, SPAN_ATTRIBUTES, key, NULL, number, &w->scratch);
}

static void put_true(struct writer *w, const char *key)
{
    otlp_put_true(&w->span, SPAN_ATTRIBUTES, key, &w->scratch);
}

/* "127.0.0.1:4711" or "[::1]:4711". */
static void put_peer(struct writer *w, const char *peer)
{
    char address[ADDRESS_BYTES];
    const char *colon = strrchr(peer, ':');
    if (!colon)
        return;
    const bool has_brackets = peer[0] == '[' && colon > peer + 1 && colon[-1] == ']';
    const int size = (int)(colon - peer) - (has_brackets ? 2 : 0);
    snprintf(address, sizeof(address), "%.*s", size, peer + (has_brackets ? 1 : 0));
    put_text(w, "client.address", address);
    put_text(w, "network.peer.address", address);
    put_number(w, "network.peer.port", strtoull(colon + 1, NULL, 10));
}

/* By the conventions a server's span has failed if its status is 5xx; so has one without a reply. */
static void put_outcome(struct writer *w, const struct request *r)
{
    char status[REQUEST_STATUS_BYTES];
    request_status_text(r->status, status);
    if (r->protocol == REQUEST_PROTOCOL_GRPC)
        put_text(w, "rpc.response.status_code", status);
    else if (r->status)
        put_number(w, "http.response.status_code", r->status);
    if (request_is_failed(r->status))
        put_text(w, "error.type", r->status ? status : "no_reply");
}

/* The components add up to the duration of the span. */
static void put_components(struct writer *w, const struct request *r)
{
    char key[64];
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++) {
        const uint64_t ns = request_kind_ns(r, (enum request_part_kind)kind);
        snprintf(key, sizeof(key), "sonde.component.%s_ns", request_part_name((enum request_part_kind)kind));
        if (ns)
            put_number(w, key, ns);
    }
}

static void put_protocol(struct writer *w, const struct request *r)
{
    if (r->protocol == REQUEST_PROTOCOL_GRPC) {
        put_text(w, "rpc.system.name", "grpc");
        put_text(w, "rpc.method", request_rpc_method(r->route));
        return;
    }
    put_text(w, "http.request.method", r->method[0] ? r->method : "_OTHER");
    put_text(w, "http.route", r->route);
    put_text(w, "url.path", r->route);
    put_text(w, "url.scheme", r->is_tls ? "https" : "http");
    put_text(w, "network.protocol.version", r->protocol == REQUEST_PROTOCOL_HTTP2 ? "2" : "1.1");
    put_number(w, "http.request.size", r->bytes_in);
    put_number(w, "http.response.size", r->bytes_out);
}

static void put_attributes(struct writer *w, const struct request *r)
{
    put_protocol(w, r);
    put_outcome(w, r);
    if (r->port)
        put_number(w, "server.port", r->port);
    put_peer(w, r->peer);
    put_number(w, "process.pid", r->pid);
    put_number(w, "thread.id", r->tid);
    put_number(w, "sonde.sampling.weight", r->weight);
    if (request_is_slow(r->duration_ns, &r->usual))
        put_true(w, "sonde.slow");
    put_text(w, "sonde.cause", r->cause);
    put_text(w, "sonde.upstream", r->upstream);
    put_text(w, "sonde.upstream.call", r->upstream_call);
    put_components(w, r);
}

/* ---- spans ---- */

static void put_event(struct writer *w, const struct request *r, const struct request_segment *s)
{
    struct buf *out = &w->part;
    protobuf_put_fixed64(out, EVENT_TIME, r->start_unix_ns + s->start_ns);
    const char *name = request_part_name(s->kind);
    protobuf_put_bytes(out, EVENT_NAME, name, strlen(name));
    otlp_put_attribute(out, EVENT_ATTRIBUTES, "sonde.duration_ns", NULL, s->duration_ns, &w->scratch);
    otlp_put_attribute(out, EVENT_ATTRIBUTES, "sonde.owner", request_owner_name(s->owner), 0, &w->scratch);
    if (s->is_inferred)
        otlp_put_true(out, EVENT_ATTRIBUTES, "sonde.inferred", &w->scratch);
    if (s->tid)
        otlp_put_attribute(out, EVENT_ATTRIBUTES, "thread.id", NULL, s->tid, &w->scratch);
    const struct {
        const char *key, *text;
    } texts[] = {{"thread.name", s->thread},
                 {"sonde.process", s->process},
                 {"sonde.detail", s->detail},
                 {"sonde.notes", s->notes}};
    for (size_t i = 0; i < array_size(texts); i++)
        if (texts[i].text && texts[i].text[0])
            otlp_put_attribute(out, EVENT_ATTRIBUTES, texts[i].key, texts[i].text, 0, &w->scratch);
    protobuf_put_message(&w->span, SPAN_EVENTS, out);
}

/* The span that the program itself made of the request. */
static void put_link(struct writer *w, const struct request *r)
{
    const struct trace_link_text link = trace_link_text(&r->link);
    if (!link.trace_id[0] || !link.span_id[0] || (r->link.span_id == r->span.parent_id && !r->span.is_remote))
        return;
    otlp_put_id(&w->part, SPAN_LINK_TRACE_ID, link.trace_id);
    otlp_put_id(&w->part, SPAN_LINK_SPAN_ID, link.span_id);
    protobuf_put_message(&w->span, SPAN_LINKS, &w->part);
}

static void put_ids(struct writer *w, const struct request *r)
{
    const struct trace_link parent = {r->span.id.trace_id_high, r->span.id.trace_id_low, r->span.parent_id};
    const struct trace_link_text id = trace_link_text(&r->span.id), parent_id = trace_link_text(&parent);
    otlp_put_id(&w->span, SPAN_TRACE_ID, id.trace_id);
    otlp_put_id(&w->span, SPAN_ID, id.span_id);
    if (parent_id.span_id[0])
        otlp_put_id(&w->span, SPAN_PARENT_ID, parent_id.span_id);
    protobuf_put_fixed32(&w->span, SPAN_FLAGS,
                         (r->span.is_unsampled ? 0 : SPAN_FLAG_SAMPLED) | SPAN_FLAG_KNOWS_REMOTE |
                             (r->span.is_remote ? SPAN_FLAG_IS_REMOTE : 0));
}

static void encode_span(struct writer *w, const struct request *r)
{
    char name[NAME_BYTES];
    w->span.size = 0;
    put_ids(w, r);
    if (r->protocol == REQUEST_PROTOCOL_GRPC)
        snprintf(name, sizeof(name), "%s", request_rpc_method(r->route));
    else
        snprintf(name, sizeof(name), "%s %s", r->method[0] ? r->method : "HTTP", r->route);
    otlp_put_text(&w->span, SPAN_NAME, name, &w->scratch);
    protobuf_put_number(&w->span, SPAN_KIND, SPAN_KIND_SERVER);
    protobuf_put_fixed64(&w->span, SPAN_START, r->start_unix_ns);
    protobuf_put_fixed64(&w->span, SPAN_END, r->start_unix_ns + r->duration_ns);
    put_attributes(w, r);
    for (size_t i = 0; i < r->segment_count; i++)
        put_event(w, r, &r->segments[i]);
    put_link(w, r);
    if (request_is_failed(r->status)) {
        protobuf_put_number(&w->part, STATUS_CODE, STATUS_CODE_ERROR);
        protobuf_put_message(&w->span, SPAN_STATUS, &w->part);
    }
}

/* ---- packets ---- */

static void end_resource(struct writer *w)
{
    if (!w->spans.size)
        return;
    buf_append(&w->scope_spans, w->scope.data, w->scope.size);
    buf_append(&w->scope_spans, w->spans.data, w->spans.size);
    w->spans.size = 0;
    protobuf_put_bytes(&w->resource_spans, RESOURCE_SPANS_RESOURCE, w->resource.data, w->resource.size);
    protobuf_put_message(&w->resource_spans, RESOURCE_SPANS_SCOPE_SPANS, &w->scope_spans);
    protobuf_put_message(&w->packet, TRACES_RESOURCE_SPANS, &w->resource_spans);
}

static void end_packet(struct writer *w)
{
    end_resource(w);
    const struct otlp_spans_packet packet = {w->packet.data, w->packet.size, w->packet_spans};
    if (w->packet_spans && writer_error(w) == 0)
        w->sink->packet(w->sink->context, &packet);
    w->packet.size = 0;
    w->packet_spans = 0;
}

static bool has_resource(const struct writer *w, const struct request *r)
{
    return w->resource_of && strcmp(w->resource_of->service, r->service) == 0 &&
           strcmp(w->resource_of->unit, r->unit) == 0 && strcmp(w->resource_of->container_id, r->container_id) == 0;
}

static void begin_resource(struct writer *w, const struct request *r)
{
    end_resource(w);
    w->resource_of = r;
    w->resource.size = 0;
    const struct {
        const char *key, *text;
    } attributes[] = {{"service.name", r->service},
                      {"host.name", w->o->host_name},
                      {"container.id", r->container_id},
                      {"sonde.systemd.unit", r->unit}};
    for (size_t i = 0; i < array_size(attributes); i++)
        if (attributes[i].text[0])
            otlp_put_attribute(&w->resource, RESOURCE_ATTRIBUTES, attributes[i].key, attributes[i].text, 0,
                               &w->scratch);
    otlp_put_attribute_list(&w->resource, RESOURCE_ATTRIBUTES, w->o->attributes, true, &w->scratch);
}

/* Upper bound of the packet's size with the span that was just encoded. */
static size_t size_with_span(const struct writer *w)
{
    return w->packet.size + 4 * HEADER_BYTES + w->resource.size + w->scope.size + w->spans.size + HEADER_BYTES +
           w->span.size;
}

static void add_span(struct writer *w, const struct request *r)
{
    encode_span(w, r);
    if (!has_resource(w, r))
        begin_resource(w, r);
    if (size_with_span(w) > w->o->packet_max_bytes)
        end_packet(w);
    if (size_with_span(w) > w->o->packet_max_bytes) {
        w->too_large++;
        return;
    }
    protobuf_put_message(&w->spans, SCOPE_SPANS_SPANS, &w->span);
    w->packet_spans++;
}

int otlp_spans_write(struct request *const *requests, size_t count, const struct otlp_spans_options *o,
                     const struct otlp_spans_sink *sink, uint64_t *ret_too_large)
{
    _cleanup_(writer_clear) struct writer w = {.o = o, .sink = sink};
    otlp_put_scope(&w.scope, SCOPE_SPANS_SCOPE, &w.scratch);
    for (size_t i = 0; i < count; i++)
        if (trace_link_is_set(&requests[i]->span.id))
            add_span(&w, requests[i]);
    end_packet(&w);
    const int r = writer_error(&w);
    if (r == 0)
        *ret_too_large = w.too_large;
    return r;
}
