/* See requests_text.h. */
#include "cli/requests/requests_text.h"

#include "base/clock.h"
#include "base/table_cell.h"
#include "base/units.h"

#include <stdio.h>

static const char *duration_or_dash(uint64_t ns, bool is_estimate, char *out, size_t size)
{
    char duration[32];
    if (!ns)
        snprintf(out, size, "-");
    else
        snprintf(out, size, "%s%s", is_estimate ? "~" : "", units_format_duration(ns, duration, sizeof(duration)));
    return out;
}

/* The failures of a route whose first cause is another one: "; fails: status 503 (~60 requests)". */
static void put_failures(const struct request_route *r, struct buf *out)
{
    char status[REQUEST_STATUS_BYTES];
    bool is_first = true;
    for (size_t i = 1; i < r->cause_count && !r->causes[0].is_failed; i++) {
        const struct request_cause *c = &r->causes[i];
        if (!c->is_failed)
            continue;
        buf_puts(out, is_first ? "; fails: " : ", ");
        if (c->status)
            buf_printf(out, "status %s", request_status_text(c->status, status));
        else
            buf_puts(out, "no reply");
        buf_printf(out, " (%s%.0f request%s)", c->group.is_estimate ? "~" : "", c->group.requests,
                   c->group.requests > 1.5 ? "s" : "");
        is_first = false;
    }
}

/* The cause that lost most time, in words. A route without slow requests shows the component that takes most of their
 * time. */
static void put_cause(const struct request_route *r, struct buf *out)
{
    char duration[32];
    const bool is_abnormal = r->lost_ns || r->slow.requests || (r->cause_count && r->causes[0].is_failed);
    if (r->cause[0] && r->cause_count) {
        if (!is_abnormal && request_route_has_usual(r) && r->usual.p50_ns)
            buf_printf(out, "always about %s: ", units_format_duration(r->usual.p50_ns, duration, sizeof(duration)));
        table_cell_put(out, r->cause, 0);
    } else if (r->top_count) {
        buf_printf(out, "%s in %u of %u slow requests", request_part_name(r->top_kind), r->top_count, r->slow.requests);
    } else {
        buf_puts(out, r->usual.explained ? request_part_name(r->top_kind) : "-");
    }
    put_failures(r, out);
}

static const char *duration_or_zero(uint64_t ns, bool is_estimate, char *out, size_t size)
{
    if (!ns)
        snprintf(out, size, "0");
    else
        duration_or_dash(ns, is_estimate, out, size);
    return out;
}

static void put_service(const char *service, const char *unit, uint16_t port, struct buf *out)
{
    char shown[REQUEST_SERVICE_BYTES];
    table_cell_put(out, request_service_text(service, unit, port, shown), 20);
    buf_putc(out, ' ');
}

/* "~5.0%"; of a route without a sample, how many failed requests were recorded: "36". */
static const char *failed_text(const struct request_route *r, char *out, size_t size)
{
    if (r->sampled)
        snprintf(out, size, "%s%.1f%%", r->is_estimate ? "~" : "",
                 r->requests > 0 ? 100 * (r->failed < r->requests ? r->failed / r->requests : 1) : 0);
    else if (r->failed > 0)
        snprintf(out, size, "%.0f", r->failed);
    else
        snprintf(out, size, "-");
    return out;
}

static bool has_median(const struct request_route *r)
{
    return r->usual.known >= REQUEST_MEDIAN_MIN;
}

/* Until the first token; for streams only. */
static void put_first(const struct request_route *r, struct buf *out)
{
    char first[40];
    buf_printf(out, " %10s", duration_or_dash(r->usual.first_p50_ns, r->is_estimate, first, sizeof(first)));
}

static void put_route(const struct request_route *r, bool has_streams, struct buf *out)
{
    char rate[32], failed[32], p50[40], p99[40], lost[40], all[40];
    snprintf(rate, sizeof(rate), "%s%.2f", r->is_estimate ? "~" : "",
             r->span_ns ? r->requests * 1e9 / (double)r->span_ns : 0);
    put_service(r->service, r->unit, r->port, out);
    const size_t before = out->size;
    table_cell_put(out, r->method, 0);
    buf_puts(out, r->method[0] ? " " : "");
    table_cell_put(out, r->route, 40 - (int)(out->size - before));
    buf_printf(out, " %-8s %10s %10s %10s %10s %10s", request_protocol_name(r->protocol),
               request_route_has_usual(r) ? duration_or_zero(r->lost_ns, r->lost_is_estimate, lost, sizeof(lost)) : "-",
               duration_or_zero(r->time_ns, r->is_estimate, all, sizeof(all)), r->sampled ? rate : "-",
               duration_or_dash(has_median(r) ? r->usual.p50_ns : 0, r->is_estimate, p50, sizeof(p50)),
               duration_or_dash(r->usual.p99_ns, r->is_estimate, p99, sizeof(p99)));
    if (has_streams)
        put_first(r, out);
    buf_printf(out, " %9s %8u  ", failed_text(r, failed, sizeof(failed)), r->usual.known);
    put_cause(r, out);
    buf_putc(out, '\n');
}

/* Which routes have too few sampled requests for the median that LOST is compared with. */
static void put_unknown_lost(const struct request_route *routes, size_t count, struct buf *out)
{
    uint32_t fewest = UINT32_MAX, most = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t known = routes[i].known;
        if (request_route_has_usual(&routes[i]))
            continue;
        fewest = known < fewest ? known : fewest;
        most = known > most ? known : most;
    }
    if (fewest == UINT32_MAX)
        return;
    buf_printf(out, "LOST -: the median of the last 5 minutes needs %d sampled requests; such a route has ",
               REQUEST_USUAL_MIN);
    if (fewest < most)
        buf_printf(out, "%u to ", fewest);
    buf_printf(out, "%u, and is ranked by its TIME\n", most);
}

/* What "~" and "-" mean, for the columns that have them. */
static void put_signs(const struct request_route *routes, size_t count, struct buf *out)
{
    bool is_estimate = false, has_no_p50 = false, has_no_p99 = false, has_none = false, has_no_path = false;
    for (size_t i = 0; i < count; i++) {
        const struct request_route *r = &routes[i];
        is_estimate |= r->is_estimate || r->lost_is_estimate;
        has_none |= !r->sampled;
        has_no_path |= r->lacks_path;
        has_no_p50 |= r->sampled && !has_median(r);
        has_no_p99 |= r->sampled && !r->usual.p99_ns;
    }
    if (is_estimate)
        buf_puts(out, "~: estimated from a random sample of the requests\n");
    put_unknown_lost(routes, count, out);
    if (has_no_path)
        buf_puts(
            out,
            "*: not known, as the connection is older than the agent, or bytes of it were missed; it is known on new connections\n");
    if (has_no_p50)
        buf_printf(out, "P50 -: needs a SAMPLE of %d\n", REQUEST_MEDIAN_MIN);
    if (has_no_p99)
        buf_printf(out, "P99 -: needs a SAMPLE of %d\n", REQUEST_USUAL_MIN_P99);
    if (has_none)
        buf_puts(
            out,
            "SAMPLE 0: only slow or failed requests of the route were recorded; FAILED is their number, not a share\n");
}

void requests_text_put_routes(const struct request_route *routes, size_t count, uint64_t last_ns, struct buf *out)
{
    char last[32];
    bool has_streams = false;
    for (size_t i = 0; i < count; i++)
        has_streams |= routes[i].usual.first_p50_ns > 0;
    buf_printf(
        out,
        "Requests of the last %s by route, most time lost first. LOST: how much longer slow requests took than the median of the last 5 minutes.\n",
        units_format_duration(last_ns, last, sizeof(last)));
    buf_printf(out, "%-20s %-40s %-8s %10s %10s %10s %10s %10s", "SERVICE", "ROUTE", "PROTOCOL", "LOST", "TIME",
               "RATE/S", "P50", "P99");
    if (has_streams)
        buf_printf(out, " %10s", "TTFT");
    buf_printf(out, " %9s %8s  %s\n", "FAILED", "SAMPLE", "TOP CAUSE");
    for (size_t i = 0; i < count; i++)
        put_route(&routes[i], has_streams, out);
    put_signs(routes, count, out);
}

/* "status 503", "no reply", "71 times the median". A request may be abnormal for both. */
static void put_reason(const struct request *r, char *out, size_t size)
{
    char status[REQUEST_STATUS_BYTES];
    size_t used = 0;
    if (request_is_failed(r->status))
        used = (size_t)(r->status ? snprintf(out, size, "status %s", request_status_text(r->status, status))
                                  : snprintf(out, size, "no reply"));
    if (request_is_slow(r->duration_ns, &r->usual))
        snprintf(out + used, size - used, "%s%.0f times the median", used ? ", " : "",
                 (double)r->duration_ns / (double)(r->usual.p50_ns ? r->usual.p50_ns : 1));
}

static void put_abnormal(const struct request *r, struct buf *out)
{
    char clock[CLOCK_TEXT_BYTES], duration[32], upstream[32], status[REQUEST_STATUS_BYTES] = "-", reason[64] = "";
    if (r->status)
        request_status_text(r->status, status);
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
               duration_or_dash(r->upstream_ns, false, upstream, sizeof(upstream)), status);
    table_cell_put(out, reason, 22);
    buf_puts(out, "  ");
    table_cell_put(out, r->cause, 0);
    buf_putc(out, '\n');
}

void requests_text_put_abnormal(struct request *const *requests, size_t count, uint64_t last_ns, struct buf *out)
{
    char last[32];
    buf_printf(out, "Failed and slow requests of the last %s, earliest first:\n",
               units_format_duration(last_ns, last, sizeof(last)));
    buf_printf(out, "%-12s  %-21s  %-21s  %-32s %10s %10s %8s  %-22s  %s\n", "TIME", "REMOTE", "UPSTREAM", "REQUEST",
               "TOOK", "UPSTREAM", "STATUS", "REASON", "CAUSE");
    for (size_t i = 0; i < count; i++)
        put_abnormal(requests[i], out);
}

/* ---- groups ---- */

static void put_group(const struct request *r, struct buf *out)
{
    char lost[40], requests[32], duration[32];
    snprintf(requests, sizeof(requests), "%s%.0f", r->group.is_estimate ? "~" : "", r->group.requests);
    put_service(r->service, r->unit, r->port, out);
    const size_t before = out->size;
    table_cell_put(out, r->method, 0);
    buf_putc(out, ' ');
    table_cell_put(out, r->route, 32 - (int)(out->size - before));
    buf_printf(out, " %10s %9s %10s  ",
               r->usual.requests ? duration_or_zero(r->group.lost_ns, r->group.is_estimate, lost, sizeof(lost)) : "-",
               requests, units_format_duration(r->duration_ns, duration, sizeof(duration)));
    table_cell_put(out, r->group_cause, 0);
    buf_putc(out, '\n');
}

void requests_text_put_groups(struct request *const *examples, size_t count, uint64_t last_ns, struct buf *out)
{
    char last[32];
    bool is_estimate = false, has_unknown = false;
    buf_printf(out, "Failed and slow requests of the last %s by route and cause, most time lost first:\n",
               units_format_duration(last_ns, last, sizeof(last)));
    buf_printf(out, "%-20s %-32s %10s %9s %10s  %s\n", "SERVICE", "ROUTE", "LOST", "REQUESTS", "SLOWEST", "CAUSE");
    for (size_t i = 0; i < count; i++)
        put_group(examples[i], out);
    for (size_t i = 0; i < count; i++) {
        is_estimate |= examples[i]->group.is_estimate;
        has_unknown |= !examples[i]->usual.requests;
    }
    if (is_estimate)
        buf_puts(out, "~: estimated from a random sample of the requests\n");
    if (has_unknown)
        buf_printf(out, "LOST -: the median of the last 5 minutes needs %d sampled requests of the route\n",
                   REQUEST_USUAL_MIN);
}
