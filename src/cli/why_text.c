/* See why_text.h. */
#include "cli/why_text.h"

#include "base/clock.h"
#include "base/units.h"
#include "cli/table_cell.h"
#include "cli/why_path.h"

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
        buf_printf(out, "    %5.1f%%  %9s  in %zu smaller ones\n",
                   r->duration_ns ? (double)sum_ns / (double)r->duration_ns * 100 : 0,
                   units_format_duration(sum_ns, duration, sizeof(duration)), r->part_count - first);
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
    if (!usual->requests)
        return;
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

static void put_head(size_t number, const struct request *r, struct buf *out)
{
    char duration[32], clock[CLOCK_TEXT_BYTES];
    buf_printf(out, "%zu. ", number);
    table_cell_put(out, r->method, 0);
    buf_putc(out, ' ');
    table_cell_put(out, r->route, 0);
    buf_printf(out, " took %s", units_format_duration(r->duration_ns, duration, sizeof(duration)));
    if (r->status)
        buf_printf(out, ", status %u", r->status);
    else
        buf_puts(out, ", no reply seen");
    buf_puts(out, "  (");
    table_cell_put(out, r->service, 0);
    buf_printf(out, ", process %u, began %s.%03u)\n   Why: ", r->pid, clock_time_of_day(r->start_unix_ns, clock),
               (unsigned)(r->start_unix_ns / 1000000u % 1000u));
    table_cell_put(out, r->cause, 0);
    buf_putc(out, '\n');
}

static void put_request(size_t number, const struct request *r, bool stacks, struct buf *out)
{
    put_head(number, r, out);
    put_usual(&r->usual, out);
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

void why_text_put(struct request *const *requests, size_t count, bool stacks, uint64_t last_ns, struct buf *out)
{
    char last[32];
    units_format_duration(last_ns, last, sizeof(last));
    if (count == 0)
        buf_printf(
            out,
            "No request was broken down in the last %s. Sonde sees HTTP/1.1 requests on TCP sockets (docs/why.md).\n",
            last);
    else if (count == 1)
        buf_printf(out, "The slowest request of the last %s:\n\n", last);
    else
        buf_printf(out, "The %zu slowest requests of the last %s:\n\n", count, last);
    for (size_t i = 0; i < count; i++)
        put_request(i + 1, requests[i], stacks, out);
}
