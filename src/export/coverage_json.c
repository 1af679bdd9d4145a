/* See coverage_json.h. */
#include "export/coverage_json.h"

static void put_ports(const struct coverage *c, struct buf *out)
{
    buf_puts(out, ",\"opaque_ports\":[");
    for (size_t i = 0; i < c->port_count; i++) {
        const struct opaque_port *p = &c->ports[i];
        buf_printf(out, "%s{\"port\":%u,\"service\":", i ? "," : "", p->port);
        buf_put_json_string(out, p->process);
        buf_printf(out, ",\"protocol\":\"%s\",\"bytes_per_second\":%.1f,\"connections\":%llu}",
                   opaque_protocol_name(p->protocol), p->bytes_per_second, (unsigned long long)p->connections);
    }
    buf_printf(out, "],\"opaque_ports_omitted\":%zu", c->ports_omitted);
}

void coverage_json_put(const struct coverage *c, enum coverage_subject subject, struct buf *out)
{
    _cleanup_buf_ struct buf nothing = {0};
    if (!c->is_answered)
        coverage_put_nothing(c, subject, &nothing);
    buf_printf(out, "{\"asked_seconds\":%.3f,\"observed_seconds\":%.3f,\"nothing\":", (double)c->asked_ns / 1e9,
               (double)c->observed_ns / 1e9);
    buf_put_json_string(out, nothing.data ? nothing.data : "");
    buf_puts(out, ",\"gaps\":[");
    for (size_t i = 0; i < c->gap_count; i++) {
        const struct coverage_gap *gap = &c->gaps[i];
        buf_printf(out, "%s{\"reason\":\"%s\",\"seconds\":%.3f,\"text\":", i ? "," : "",
                   coverage_reason_name(gap->reason), (double)gap->duration_ns / 1e9);
        buf_put_json_string(out, gap->text);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    if (subject != COVERAGE_EVENTS && subject != COVERAGE_IO)
        put_ports(c, out);
    if (c->overload[0]) {
        buf_puts(out, ",\"overload\":");
        buf_put_json_string(out, c->overload);
    }
    buf_putc(out, '}');
}

void coverage_json_begin(const struct coverage *c, enum coverage_subject subject, const char *list, struct buf *out)
{
    buf_puts(out, "{\"coverage\":");
    coverage_json_put(c, subject, out);
    buf_printf(out, ",\"%s\":", list);
}
