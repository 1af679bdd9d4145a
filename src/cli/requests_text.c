/* See requests_text.h. */
#include "cli/requests_text.h"

#include "base/clock.h"
#include "base/units.h"
#include "cli/table_cell.h"

#include <stdio.h>

static const char *duration_or_dash(uint64_t ns, char *out, size_t size)
{
    if (!ns)
        snprintf(out, size, "-");
    else
        units_format_duration(ns, out, size);
    return out;
}

/* "disk in 3 of 4 slow", "cpu"; "-": not known. */
static void put_top_cause(const struct request_route *r, struct buf *out)
{
    if (r->top_count)
        buf_printf(out, "%s in %u of %u slow", request_part_name(r->top_kind), r->top_count, r->slow.requests);
    else
        buf_puts(out, r->usual.explained ? request_part_name(r->top_kind) : "-");
}

static void put_route(const struct request_route *r, struct buf *out)
{
    char rate[32], failed[32], p50[32], p99[32];
    const char *about = r->is_estimate ? "~" : "";
    snprintf(rate, sizeof(rate), "%s%.2f", about, r->span_ns ? r->requests * 1e9 / (double)r->span_ns : 0);
    snprintf(failed, sizeof(failed), "%s%.1f%%", about, r->requests > 0 ? 100 * r->failed / r->requests : 0);
    table_cell_put(out, r->service, 20);
    buf_putc(out, ' ');
    const size_t before = out->size;
    table_cell_put(out, r->method, 0);
    buf_puts(out, r->method[0] ? " " : "");
    table_cell_put(out, r->route, 40 - (int)(out->size - before));
    buf_printf(out, " %10s %10s %10s %9s %8u  ", r->sampled ? rate : "-",
               duration_or_dash(r->usual.p50_ns, p50, sizeof(p50)), duration_or_dash(r->usual.p99_ns, p99, sizeof(p99)),
               r->sampled ? failed : "-", r->sampled);
    put_top_cause(r, out);
    buf_putc(out, '\n');
}

void requests_text_put_routes(const struct request_route *routes, size_t count, uint64_t last_ns, struct buf *out)
{
    char last[32];
    units_format_duration(last_ns, last, sizeof(last));
    if (!count) {
        buf_printf(out, "No request in the last %s. Sonde sees HTTP/1.1 requests on TCP sockets (docs/why.md).\n",
                   last);
        return;
    }
    buf_printf(out, "%-20s %-40s %10s %10s %10s %9s %8s  %s\n", "SERVICE", "ROUTE", "RATE/S", "P50", "P99", "FAILED",
               "SAMPLE", "TOP CAUSE");
    for (size_t i = 0; i < count; i++)
        put_route(&routes[i], out);
}

/* "status 503", "no reply", "71 times the median". A request may be abnormal for both. */
static void put_reason(const struct request *r, char *out, size_t size)
{
    size_t used = 0;
    if (request_is_failed(r->status))
        used = (size_t)(r->status ? snprintf(out, size, "status %u", r->status) : snprintf(out, size, "no reply"));
    if (request_is_slow(r->duration_ns, &r->usual))
        snprintf(out + used, size - used, "%s%.0f times the median", used ? ", " : "",
                 (double)r->duration_ns / (double)(r->usual.p50_ns ? r->usual.p50_ns : 1));
}

static void put_abnormal(const struct request *r, struct buf *out)
{
    char clock[CLOCK_TEXT_BYTES], duration[32], upstream[32], status[16] = "-", reason[64] = "";
    if (r->status)
        snprintf(status, sizeof(status), "%u", r->status);
    put_reason(r, reason, sizeof(reason));
    buf_printf(out, "%s.%03u  ", clock_time_of_day(r->start_unix_ns, clock),
               (unsigned)(r->start_unix_ns / 1000000u % 1000u));
    table_cell_put(out, r->peer[0] ? r->peer : "-", 21);
    buf_puts(out, "  ");
    table_cell_put(out, r->upstream[0] ? r->upstream : "-", 21);
    buf_puts(out, "  ");
    const size_t before = out->size;
    table_cell_put(out, r->method, 0);
    buf_putc(out, ' ');
    table_cell_put(out, r->route, 32 - (int)(out->size - before));
    buf_printf(out, " %10s %10s %8s  ", units_format_duration(r->duration_ns, duration, sizeof(duration)),
               duration_or_dash(r->upstream_ns, upstream, sizeof(upstream)), status);
    table_cell_put(out, reason, 22);
    buf_puts(out, "  ");
    table_cell_put(out, r->cause, 0);
    buf_putc(out, '\n');
}

void requests_text_put_abnormal(struct request *const *requests, size_t count, uint64_t last_ns, struct buf *out)
{
    char last[32];
    units_format_duration(last_ns, last, sizeof(last));
    if (!count) {
        buf_printf(out, "No abnormal request was recorded in the last %s.\n", last);
        return;
    }
    buf_printf(out, "%-12s  %-21s  %-21s  %-32s %10s %10s %8s  %-22s  %s\n", "TIME", "REMOTE", "UPSTREAM", "REQUEST",
               "TOOK", "UPSTREAM", "STATUS", "REASON", "DIAGNOSIS");
    for (size_t i = 0; i < count; i++)
        put_abnormal(requests[i], out);
}
