/* JSON of requests; see requests_json.h and docs/why.md. */
#include "export/requests_json.h"

#include "export/request_routes_json.h"

#include <inttypes.h>

static void put_text(struct buf *out, const char *key, const char *text)
{
    buf_printf(out, ",\"%s\":", key);
    buf_put_json_string(out, text);
}

static void put_lines(struct buf *out, const char *key, const char *lines)
{
    char line[REQUEST_FRAME_BYTES];
    buf_printf(out, ",\"%s\":[", key);
    for (const char *at = lines, *comma = ""; request_next_frame(&at, line); comma = ",") {
        buf_puts(out, comma);
        buf_put_json_string(out, line);
    }
    buf_putc(out, ']');
}

static void put_part(struct buf *out, const struct request_part *part)
{
    buf_printf(out, "{\"kind\":\"%s\",\"ns\":%" PRIu64, request_part_name(part->kind), part->duration_ns);
    put_text(out, "detail", part->detail);
    if (part->stack && part->stack[0])
        put_lines(out, "stack", part->stack);
    buf_putc(out, '}');
}

static void put_segment(struct buf *out, const struct request_segment *s)
{
    buf_printf(out, "{\"start_ns\":%" PRIu64 ",\"ns\":%" PRIu64 ",\"kind\":\"%s\",\"owner\":\"%s\",\"evidence\":\"%s\"",
               s->start_ns, s->duration_ns, request_part_name(s->kind), request_owner_name(s->owner),
               s->is_inferred ? "inferred" : "measured");
    buf_printf(out, ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32, s->pid, s->tid);
    put_text(out, "thread", s->thread);
    if (s->process && s->process[0])
        put_text(out, "process", s->process);
    put_text(out, "detail", s->detail);
    for (size_t i = 0; i < s->time_count; i++)
        buf_printf(out, "%s{\"kind\":\"%s\",\"ns\":%" PRIu64 "}%s", i ? "," : ",\"times\":[",
                   request_part_name(s->times[i].kind), s->times[i].ns, i + 1 < s->time_count ? "" : "]");
    if (s->notes && s->notes[0])
        put_lines(out, "notes", s->notes);
    buf_putc(out, '}');
}

static void put_stream(struct buf *out, const struct request *r)
{
    const struct request_stream *s = &r->stream;
    const char *before = ",\"first_parts\":[";
    buf_printf(out, ",\"stream\":{\"first_byte_ns\":%" PRIu64 ",\"unit\":\"%s\",\"count\":%" PRIu32, s->first_byte_ns,
               request_stream_has_tokens(s) ? "token" : "chunk", request_stream_count(s));
    buf_printf(out, ",\"first_ns\":%" PRIu64 ",\"last_ns\":%" PRIu64 ",\"step_ns\":%" PRIu64, s->first_ns, s->last_ns,
               request_stream_step_ns(s));
    buf_printf(out, ",\"chunks\":%" PRIu32 ",\"tokens\":%" PRIu32 ",\"usage\":%" PRIu32, s->chunks, s->tokens,
               s->usage);
    buf_printf(out, ",\"is_late\":%s,\"is_incomplete\":%s", s->is_late ? "true" : "false",
               s->is_incomplete ? "true" : "false");
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++) {
        if (!r->first_part_ns[kind])
            continue;
        buf_printf(out, "%s{\"kind\":\"%s\",\"ns\":%" PRIu64 "}", before,
                   request_part_name((enum request_part_kind)kind), r->first_part_ns[kind]);
        before = ",";
    }
    buf_puts(out, before[1] ? "}" : "]}");
}

static void put_request(struct buf *out, const struct request *r)
{
    buf_printf(out, "{\"start_time_unix_nano\":%" PRIu64 ",\"duration_ns\":%" PRIu64, r->start_unix_ns, r->duration_ns);
    put_text(out, "service", r->service);
    put_text(out, "unit", r->unit ? r->unit : "");
    buf_printf(out, ",\"port\":%u", r->port);
    buf_printf(out, ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32, r->pid, r->tid);
    put_text(out, "container_id", r->container_id);
    put_text(out, "method", r->method);
    put_text(out, "route", r->route);
    buf_printf(out, ",\"protocol\":\"%s\"", request_protocol_name(r->protocol));
    request_status_json_put(r->status, out);
    put_text(out, "peer", r->peer);
    if (r->is_tls)
        buf_puts(out, ",\"tls\":true");
    buf_printf(out, ",\"bytes_in\":%" PRIu64 ",\"bytes_out\":%" PRIu64, r->bytes_in, r->bytes_out);
    if (r->model && r->model[0])
        put_text(out, "model", r->model);
    if (r->stream.is_stream)
        put_stream(out, r);
    if (trace_link_is_set(&r->link)) {
        const struct trace_link_text text = trace_link_text(&r->link);
        put_text(out, "trace_id", text.trace_id);
        if (text.span_id[0])
            put_text(out, "span_id", text.span_id);
    }
    if (r->upstream_ns) {
        put_text(out, "upstream", r->upstream);
        put_text(out, "upstream_call", r->upstream_call);
        buf_printf(out, ",\"upstream_ns\":%" PRIu64, r->upstream_ns);
    }
    if (r->usual.requests) {
        buf_puts(out, ",\"usual\":");
        request_usual_json_put(&r->usual, out);
    } else {
        buf_printf(out, ",\"usual_known\":%" PRIu32, r->usual.known);
    }
    if (r->group.requests > 0) {
        buf_puts(out, ",\"group\":");
        request_group_json_put(&r->group, out);
        put_text(out, "group_cause", r->group_cause ? r->group_cause : "");
    }
    put_text(out, "cause", r->cause);
    buf_puts(out, ",\"parts\":[");
    for (size_t i = 0; i < r->part_count; i++) {
        if (i)
            buf_putc(out, ',');
        put_part(out, &r->parts[i]);
    }
    buf_puts(out, "],\"segments\":[");
    for (size_t i = 0; i < r->segment_count; i++) {
        if (i)
            buf_putc(out, ',');
        put_segment(out, &r->segments[i]);
    }
    buf_puts(out, "]}");
}

int requests_json_write(struct request *const *requests, size_t count, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_puts(out, ",\n");
        put_request(out, requests[i]);
    }
    buf_putc(out, ']');
    return buf_error(out);
}

int requests_json_put_groups(struct request *const *requests, size_t count, struct buf *out)
{
    const char *before = ",\"groups\":[";
    for (size_t i = 0; i < count; i++) {
        const struct request *r = requests[i];
        if (r->group.requests <= 0)
            continue;
        buf_printf(out, "%s{\"port\":%u", before, r->port);
        put_text(out, "service", r->service);
        put_text(out, "unit", r->unit ? r->unit : "");
        put_text(out, "method", r->method);
        put_text(out, "route", r->route);
        put_text(out, "cause", r->group_cause ? r->group_cause : "");
        buf_puts(out, ",\"group\":");
        request_group_json_put(&r->group, out);
        buf_putc(out, '}');
        before = ",\n";
    }
    if (before[1] == '\n')
        buf_putc(out, ']');
    return buf_error(out);
}
