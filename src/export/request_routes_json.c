/* JSON of routes; see request_routes_json.h and docs/why.md. */
#include "export/request_routes_json.h"

#include <inttypes.h>

static void put_percentiles(uint64_t p50_ns, uint64_t p99_ns, struct buf *out)
{
    buf_printf(out, "\"p50_ns\":%" PRIu64, p50_ns);
    if (p99_ns)
        buf_printf(out, ",\"p99_ns\":%" PRIu64, p99_ns);
}

void request_usual_json_put(const struct request_usual *usual, struct buf *out)
{
    const char *comma = "";
    buf_printf(out, "{\"requests\":%" PRIu32 ",", usual->requests);
    put_percentiles(usual->p50_ns, usual->p99_ns, out);
    if (usual->first_p50_ns)
        buf_printf(out, ",\"first_p50_ns\":%" PRIu64, usual->first_p50_ns);
    buf_printf(out, ",\"known\":%" PRIu32 ",\"explained\":%" PRIu32 ",\"parts\":[", usual->known, usual->explained);
    for (int kind = 0; usual->explained && kind < REQUEST_PART_COUNT; kind++) {
        if (!usual->part_p50_ns[kind] && !usual->part_p99_ns[kind])
            continue;
        buf_printf(out, "%s{\"kind\":\"%s\",", comma, request_part_name((enum request_part_kind)kind));
        put_percentiles(usual->part_p50_ns[kind], usual->part_p99_ns[kind], out);
        buf_putc(out, '}');
        comma = ",";
    }
    buf_puts(out, "]}");
}

static void put_text(const char *key, const char *text, struct buf *out)
{
    buf_printf(out, "\"%s\":", key);
    buf_put_json_string(out, text);
    buf_putc(out, ',');
}

void request_group_json_put(const struct request_group *group, struct buf *out)
{
    buf_printf(out, "{\"requests\":%.0f,\"lost_ns\":%" PRIu64 ",\"time_ns\":%" PRIu64 ",\"estimated\":%s}",
               group->requests, group->lost_ns, group->time_ns, group->is_estimate ? "true" : "false");
}

void request_status_json_put(uint16_t status, struct buf *out)
{
    if (status < REQUEST_STATUS_GRPC) {
        buf_printf(out, ",\"status\":%u", status);
        return;
    }
    buf_puts(out, ",\"status\":200,\"grpc_status\":");
    if (status == REQUEST_STATUS_GRPC_UNKNOWN)
        buf_puts(out, "null");
    else
        buf_printf(out, "%u", status - REQUEST_STATUS_GRPC);
}

static void put_cause(const struct request_cause *c, struct buf *out)
{
    buf_printf(out, "{\"kind\":\"%s\"", request_part_name(c->kind));
    if (c->is_failed)
        request_status_json_put(c->status, out);
    buf_puts(out, ",\"group\":");
    request_group_json_put(&c->group, out);
    buf_putc(out, '}');
}

static void put_causes(const struct request_route *r, struct buf *out)
{
    buf_puts(out, ",\"causes\":[");
    for (size_t i = 0; i < r->cause_count; i++) {
        buf_puts(out, i ? "," : "");
        put_cause(&r->causes[i], out);
    }
    buf_putc(out, ']');
}

static void put_route(const struct request_route *r, struct buf *out)
{
    buf_putc(out, '{');
    put_text("service", r->service, out);
    put_text("unit", r->unit, out);
    buf_printf(out, "\"port\":%u,", r->port);
    put_text("protocol", request_protocol_name(r->protocol), out);
    put_text("method", r->method, out);
    put_text("route", r->route, out);
    buf_printf(out, "\"lacks_path\":%s,", r->lacks_path ? "true" : "false");
    buf_printf(out, "\"span_ns\":%" PRIu64 ",\"sampled\":%" PRIu32 ",\"estimated\":%s", r->span_ns, r->sampled,
               r->is_estimate ? "true" : "false");
    buf_printf(out, ",\"requests\":%.0f,\"failed\":%.0f", r->requests, r->failed);
    buf_printf(out, ",\"time_ns\":%" PRIu64 ",\"lost_ns\":%" PRIu64 ",\"lost_estimated\":%s,", r->time_ns, r->lost_ns,
               r->lost_is_estimate ? "true" : "false");
    put_text("cause", r->cause, out);
    buf_printf(out, "\"usual_known\":%" PRIu32, r->known);
    put_causes(r, out);
    if (r->usual.requests) {
        buf_puts(out, ",\"usual\":");
        request_usual_json_put(&r->usual, out);
    }
    if (r->slow.requests) {
        buf_puts(out, ",\"slow\":");
        request_usual_json_put(&r->slow, out);
    }
    if (r->top_count || r->usual.explained)
        buf_printf(out, ",\"top_kind\":\"%s\",\"top_count\":%" PRIu32, request_part_name(r->top_kind), r->top_count);
    buf_putc(out, '}');
}

int request_routes_json_write(const struct request_route *routes, size_t count, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_puts(out, ",\n");
        put_route(&routes[i], out);
    }
    buf_putc(out, ']');
    return buf_error(out);
}
