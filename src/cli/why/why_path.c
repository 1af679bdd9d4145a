/* See why_path.h. */
#include "cli/why/why_path.h"

#include "base/table_cell.h"
#include "base/units.h"
#include "diagnose/request_lanes.h"

#define KINDS_SHOWN 3
#define WAIT_SHARE  20  /* a wait of less than this part of the request is not described */
#define REST_SHARE  100 /* nor other kinds that have together less than this part of it */

/* "run_queue 266 ms, cpu 130 ms, other kinds 4.10 ms", the longest first. */
static void put_kinds(const struct request *r, const struct request_lane *lane, struct buf *out)
{
    uint64_t sums_ns[REQUEST_PART_COUNT], rest_ns = lane->duration_ns;
    char duration[32];
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
        sums_ns[kind] = lane->sums_ns[kind];
    for (int shown = 0; shown < KINDS_SHOWN; shown++) {
        int longest = 0;
        for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
            longest = sums_ns[kind] > sums_ns[longest] ? kind : longest;
        if (sums_ns[longest] == 0 || (shown && sums_ns[longest] < lane->duration_ns / WAIT_SHARE))
            break;
        buf_printf(out, "%s%s %s", shown ? ", " : "", request_part_name((enum request_part_kind)longest),
                   units_format_duration(sums_ns[longest], duration, sizeof(duration)));
        rest_ns -= sums_ns[longest] < rest_ns ? sums_ns[longest] : rest_ns;
        sums_ns[longest] = 0;
    }
    if (rest_ns && rest_ns >= r->duration_ns / REST_SHARE)
        buf_printf(out, ", other kinds %s", units_format_duration(rest_ns, duration, sizeof(duration)));
}

/* "  in thread 24141 pool-1 of process 24000 (worker)"; nothing for the thread that served the request, or where the
 * lane has only the holders of a lock. */
static void put_thread(const struct request *r, const struct request_lane *lane, struct buf *out)
{
    if (!lane->tid || lane->tid == r->tid || lane->held_ns == lane->duration_ns)
        return;
    buf_printf(out, "  in thread %u%s", lane->tid, lane->thread[0] ? " " : "");
    table_cell_put(out, lane->thread, 0);
    if (!lane->pid || lane->pid == r->pid)
        return;
    buf_printf(out, " of process %u", lane->pid);
    if (lane->process && lane->process[0]) {
        buf_puts(out, " (");
        table_cell_put(out, lane->process, 0);
        buf_putc(out, ')');
    }
}

/* Whether the segment needs a line of its own: it has text that its lane lacks. */
static bool has_words(const struct request_segment *s)
{
    return s->notes[0] || (s->detail[0] && s->kind != REQUEST_PART_CPU && s->kind != REQUEST_PART_RUN_QUEUE);
}

/* The longest segment of the lane that has words. */
static const struct request_segment *longest_wait(const struct request *r, const struct request_lane *lane)
{
    const struct request_segment *longest = NULL;
    for (size_t i = lane->first; i < lane->first + lane->count; i++) {
        const struct request_segment *s = &r->segments[i];
        if (has_words(s) && s->duration_ns >= r->duration_ns / WAIT_SHARE &&
            (!longest || s->duration_ns > longest->duration_ns))
            longest = s;
    }
    return longest;
}

static void put_wait(const struct request_segment *s, struct buf *out)
{
    static const char *const owners[REQUEST_OWNER_COUNT] = {"", ", of another request", ", of one of several requests",
                                                            ""};
    char line[REQUEST_FRAME_BYTES];
    buf_printf(out, "                          %s%s", request_part_name(s->kind), s->detail[0] ? ": " : "");
    table_cell_put(out, s->detail, 0);
    buf_printf(out, "%s%s\n", owners[s->owner], s->is_inferred ? " (inferred)" : "");
    for (const char *at = s->notes; request_next_frame(&at, line);) {
        buf_puts(out, "                            ");
        table_cell_put(out, line, 0);
        buf_putc(out, '\n');
    }
}

void why_path_put(const struct request *r, struct buf *out)
{
    struct request_lane lanes[REQUEST_LANES_MAX];
    const size_t count = request_lanes(r, lanes);
    if (count)
        buf_puts(out, "   Path:\n");
    for (size_t i = 0; i < count; i++) {
        char start[32], duration[32];
        buf_printf(out, "    +%-9s %9s  ", units_format_duration(lanes[i].start_ns, start, sizeof(start)),
                   units_format_duration(lanes[i].duration_ns, duration, sizeof(duration)));
        put_kinds(r, &lanes[i], out);
        put_thread(r, &lanes[i], out);
        buf_putc(out, '\n');
        const struct request_segment *wait = longest_wait(r, &lanes[i]);
        if (wait)
            put_wait(wait, out);
    }
}
