/* See why_text.h. */
#include "cli/why/why_text.h"

#include "base/clock.h"
#include "base/table_cell.h"
#include "base/units.h"
#include "cli/why/why_path.h"
#include "diagnose/request_sentence.h"

#include <string.h>

#define SMALL_SHARE 100 /* a component of less than this part of the request has no line of its own */

static void put_component(const struct request_part *part, uint64_t duration_ns, struct buf *out)
{
    static const char blocks[] = "##############################";
    char duration[32];
    double share = duration_ns ? (double)part->duration_ns / duration_ns : 0;
    buf_printf(out, "    %5.1f%%  %9s  %-14s %-30.*s ", share * 100,
               units_format_duration(part->duration_ns, duration, sizeof(duration)), request_part_name(part->kind),
               (int)(share * 30 + 0.5), blocks);
    table_cell_put(out, part->detail, 0);
    buf_putc(out, '\n');
}

/* The components that are too short for a line of their own. */
static void put_small_components(const struct request *r, size_t first, struct buf *out)
{
    uint64_t sum_ns = 0;
    char duration[32];
    for (size_t i = first; i < r->part_count; i++)
        sum_ns += r->parts[i].duration_ns;
    if (sum_ns)
        buf_printf(out, "    %5.1f%%  %9s  in %zu smaller one%s\n",
                   r->duration_ns ? (double)sum_ns / (double)r->duration_ns * 100 : 0,
                   units_format_duration(sum_ns, duration, sizeof(duration)), r->part_count - first,
                   r->part_count - first > 1 ? "s" : "");
}

static void put_stack(const char *stack, struct buf *out)
{
    char line[REQUEST_FRAME_BYTES];
    for (const char *at = stack; request_next_frame(&at, line);) {
        buf_puts(out, "                         ");
        table_cell_put(out, line, 0);
        buf_putc(out, '\n');
    }
}

/* "   Usual: 3.00 ms (99th percentile 9.10 ms): cpu 2.00 ms, disk 800 us". */
static void put_usual(const struct request_usual *usual, struct buf *out)
{
    char duration[32];
    const char *separator = ": ";
    if (!usual->requests) {
        buf_printf(
            out, "   Usual: not known yet: it needs %d sampled requests of this route in 5 minutes, and there are %u\n",
            REQUEST_USUAL_MIN, usual->known);
        return;
    }
    buf_printf(out, "   Usual: %s", units_format_duration(usual->p50_ns, duration, sizeof(duration)));
    if (usual->p99_ns)
        buf_printf(out, " (99th percentile %s)", units_format_duration(usual->p99_ns, duration, sizeof(duration)));
    for (int kind = 0; usual->explained && kind < REQUEST_PART_COUNT; kind++)
        if (usual->part_p50_ns[kind]) {
            buf_printf(out, "%s%s %s", separator, request_part_name((enum request_part_kind)kind),
                       units_format_duration(usual->part_p50_ns[kind], duration, sizeof(duration)));
            separator = ", ";
        }
    buf_putc(out, '\n');
}

/* "   Until the first: run_queue 300 ms, cpu 112 ms", the longest first. */
static void put_first_parts(const struct request *r, struct buf *out)
{
    uint64_t left_ns[REQUEST_PART_COUNT];
    const char *before = "   Until the first: ";
    char duration[32];
    memcpy(left_ns, r->first_part_ns, sizeof(left_ns));
    for (int shown = 0; shown < REQUEST_PART_COUNT; shown++) {
        int longest = 0;
        for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
            longest = left_ns[kind] > left_ns[longest] ? kind : longest;
        if (!left_ns[longest])
            break;
        buf_printf(out, "%s%s %s", before, request_part_name((enum request_part_kind)longest),
                   units_format_duration(left_ns[longest], duration, sizeof(duration)));
        left_ns[longest] = 0;
        before = ", ";
    }
    buf_puts(out, r->stream.first_ns ? "\n" : "");
}

/* "   Stream: first token after 412 ms, then 21.3 ms per token, 96 tokens", and the model that was asked for. */
static void put_stream(const struct request *r, struct buf *out)
{
    char text[REQUEST_STREAM_TEXT_BYTES];
    if (r->model && r->model[0]) {
        buf_puts(out, "   Model: ");
        table_cell_put(out, r->model, 0);
        buf_putc(out, '\n');
    }
    if (!request_stream_text(&r->stream, text)[0])
        return;
    buf_printf(out, "   Stream: %s\n", text);
    put_first_parts(r, out);
}

static void put_service(const struct request *r, struct buf *out)
{
    char service[REQUEST_SERVICE_BYTES];
    table_cell_put(out, request_service_text(r->service, r->unit, r->port, service), 0);
}

static void put_head(size_t number, const struct request *r, struct buf *out)
{
    char duration[32], clock[CLOCK_TEXT_BYTES], status[REQUEST_STATUS_BYTES];
    buf_printf(out, "%zu. ", number);
    table_cell_put(out, r->method, 0);
    buf_putc(out, ' ');
    table_cell_put(out, r->route, 0);
    buf_printf(out, " took %s", units_format_duration(r->duration_ns, duration, sizeof(duration)));
    if (r->status)
        buf_printf(out, ", status %s", request_status_text(r->status, status));
    else
        buf_puts(out, ", no reply seen");
    buf_puts(out, "  (");
    put_service(r, out);
    if (r->protocol != REQUEST_PROTOCOL_HTTP1)
        buf_printf(out, ", %s", request_protocol_name(r->protocol));
    if (r->is_tls)
        buf_puts(out, ", over TLS");
    buf_printf(out, ", process %u, began %s.%03u)\n   Why: ", r->pid, clock_time_of_day(r->start_unix_ns, clock),
               (unsigned)(r->start_unix_ns / 1000000u % 1000u));
    table_cell_put(out, r->cause, 0);
    buf_putc(out, '\n');
}

static void put_body(const struct request *r, bool stacks, struct buf *out)
{
    char failure[REQUEST_SENTENCE_BYTES];
    if (request_failure(r, failure)[0]) {
        buf_puts(out, "   Failed: ");
        table_cell_put(out, failure, 0);
        buf_putc(out, '\n');
    }
    put_usual(&r->usual, out);
    put_stream(r, out);
    if (trace_link_is_set(&r->link)) {
        const struct trace_link_text text = trace_link_text(&r->link);
        buf_printf(out, "   Trace: %s%s%s\n", text.trace_id, text.span_id[0] ? ", span " : "", text.span_id);
    }
    size_t i = 0;
    for (; i < r->part_count && r->parts[i].duration_ns >= r->duration_ns / SMALL_SHARE; i++) {
        put_component(&r->parts[i], r->duration_ns, out);
        if (stacks)
            put_stack(r->parts[i].stack, out);
    }
    put_small_components(r, i, out);
    why_path_put(r, out);
    buf_putc(out, '\n');
}

/* ---- groups ---- */

/* "lost 12.3 s in ~83 slow requests", "14 requests failed", "~180 requests took 22.0 s, none is slower than usual". */
static void put_sum(const struct request *r, struct buf *out)
{
    char duration[32];
    const char *about = r->group.is_estimate ? "~" : "", *many = r->group.requests > 1.5 ? "s" : "";
    if (r->group.lost_ns)
        buf_printf(out, "lost %s%s in %s%.0f slow request%s", about,
                   units_format_duration(r->group.lost_ns, duration, sizeof(duration)), about, r->group.requests, many);
    else if (request_is_failed(r->status))
        buf_printf(out, "%s%.0f request%s failed", about, r->group.requests, many);
    else
        buf_printf(out, "%s%.0f request%s took %s%s%s", about, r->group.requests, many, about,
                   units_format_duration(r->group.time_ns, duration, sizeof(duration)),
                   request_is_abnormal(r) || !r->usual.requests ? "" : ", none is slower than usual");
}

/* "GET /cart  (shop :8100): lost 12.3 s in ~83 slow requests". */
static void put_group_head(const struct request *r, struct buf *out)
{
    table_cell_put(out, r->method, 0);
    buf_putc(out, ' ');
    table_cell_put(out, r->route, 0);
    buf_puts(out, "  (");
    put_service(r, out);
    buf_puts(out, "): ");
    put_sum(r, out);
}

static void put_group(size_t number, const struct request *r, bool stacks, struct buf *out)
{
    char duration[32], clock[CLOCK_TEXT_BYTES], status[REQUEST_STATUS_BYTES];
    buf_printf(out, "%zu. ", number);
    put_group_head(r, out);
    buf_puts(out, "\n   Cause: ");
    table_cell_put(out, r->group_cause, 0);
    buf_printf(out, "\n   Example: %s, %s", units_format_duration(r->duration_ns, duration, sizeof(duration)),
               r->status ? "status " : "no reply seen");
    if (r->status)
        buf_puts(out, request_status_text(r->status, status));
    buf_printf(out, ", process %u, began %s.%03u\n", r->pid, clock_time_of_day(r->start_unix_ns, clock),
               (unsigned)(r->start_unix_ns / 1000000u % 1000u));
    put_body(r, stacks, out);
}

/* Failures among the groups that are not printed: they lost little time, if any. */
static void put_more_failures(struct request *const *examples, size_t count, struct buf *out)
{
    size_t shown = 0;
    for (size_t i = WHY_GROUPS_MAX; i < count && shown < WHY_GROUPS_MAX; i++) {
        if (!request_is_failed(examples[i]->status))
            continue;
        buf_puts(out, shown++ ? "   " : "Failures with less time lost:\n   ");
        put_group_head(examples[i], out);
        buf_puts(out, ", ");
        table_cell_put(out, examples[i]->group_cause, 0);
        buf_putc(out, '\n');
    }
    buf_puts(out, shown ? "\n" : "");
}

void why_text_put_groups(struct request *const *examples, size_t count, bool stacks, uint64_t last_ns, struct buf *out)
{
    char last[32];
    bool is_estimate = false;
    buf_printf(out, "Requests of the last %s by route and cause, most time lost first:\n\n",
               units_format_duration(last_ns, last, sizeof(last)));
    for (size_t i = 0; i < count; i++) {
        is_estimate |= examples[i]->group.is_estimate;
        if (i < WHY_GROUPS_MAX)
            put_group(i + 1, examples[i], stacks, out);
    }
    put_more_failures(examples, count, out);
    if (is_estimate)
        buf_puts(out, "~: estimated from a random sample of the requests\n");
    if (count > WHY_GROUPS_MAX)
        buf_printf(
            out,
            "%zu more groups: `sonde why --json` prints all, in \"groups\" and \"requests\" (an example of each).\n",
            count - WHY_GROUPS_MAX);
}

/* ---- single requests ---- */

static void put_request(size_t number, const struct request *r, bool stacks, struct buf *out)
{
    put_head(number, r, out);
    put_body(r, stacks, out);
}

void why_text_put(struct request *const *requests, size_t count, bool stacks, uint64_t last_ns, struct buf *out)
{
    char last[32];
    units_format_duration(last_ns, last, sizeof(last));
    if (count == 1)
        buf_printf(out, "The slowest request of the last %s:\n\n", last);
    else
        buf_printf(out, "The %zu slowest requests of the last %s:\n\n", count, last);
    for (size_t i = 0; i < count; i++)
        put_request(i + 1, requests[i], stacks, out);
}
