/* Differential flame graph; see diff_html.h. Uses the page of a single profile. The JSON adds for each stack
 * `sonde.before`, the weight before, next to `weights`, both in parts of WHOLE, and `sonde.spread`, its contribution to
 * the variance of a change (profile_diff_spread). `sonde.compared` marks the file as a comparison. */
#include "export/diff_html.h"

#include "base/units.h"
#include "export/html.h"

#include <inttypes.h>

#define WHOLE 1e9

/* Returns the end of the run of stacks of one process, whose name is the first in each stack. */
static size_t process_end(const struct profile_diff *d, size_t first)
{
    size_t end = first + 1;
    while (end < d->stack_count && d->stack_names[d->stacks[end].first] == d->stack_names[d->stacks[first].first])
        end++;
    return end;
}

static void put_stacks(struct buf *out, const struct profile_diff *d, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        const struct diff_stack *s = &d->stacks[i];
        buf_puts(out, i > first ? ",[" : "[");
        for (uint32_t j = 1; j < s->count; j++)
            buf_printf(out, "%s%u", j > 1 ? "," : "", d->stack_names[s->first + j]);
        buf_putc(out, ']');
    }
}

static void put_shares(struct buf *out, const struct profile_diff *d, size_t first, size_t end, int side)
{
    const double whole = (double)d->whole[side].weight;
    for (size_t i = first; i < end; i++)
        buf_printf(out, "%s%.0f", i > first ? "," : "",
                   whole > 0 ? (double)d->stacks[i].amount[side].weight / whole * WHOLE : 0);
}

static void put_spreads(struct buf *out, const struct profile_diff *d, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        buf_printf(out, "%s%.4g", i > first ? "," : "", profile_diff_spread(d, d->stacks[i].amount));
}

static void put_process(struct buf *out, const struct profile_diff *d, size_t first, size_t end)
{
    const uint32_t process = d->stack_names[d->stacks[first].first];
    const char *name = process ? strings_get(d->names, process) : "all";
    buf_puts(out, "{\"type\":\"sampled\",\"name\":");
    buf_put_json_string(out, name);
    buf_puts(out, ",\"unit\":\"none\",\n\"samples\":[");
    put_stacks(out, d, first, end);
    buf_puts(out, "],\n\"weights\":[");
    put_shares(out, d, first, end, DIFF_AFTER);
    buf_puts(out, "],\n\"sonde\":{\"before\":[");
    put_shares(out, d, first, end, DIFF_BEFORE);
    buf_puts(out, "],\"spread\":[");
    put_spreads(out, d, first, end);
    buf_puts(out, "],\"counts\":[],\"resource\":{\"process.command\":");
    buf_put_json_string(out, name);
    buf_puts(out, "}}}");
}

static void put_recording(struct buf *out, const struct profile_diff *d, const char *key, int side)
{
    buf_printf(out, "\"%s\":{\"samples\":%" PRIu64 ",\"duration_ns\":%" PRIu64 ",\"not_observed_ns\":%" PRIu64 "}", key,
               d->whole[side].samples, d->duration_ns[side], d->not_observed_ns[side]);
}

int diff_json_write(struct buf *out, const struct profile_diff *d)
{
    buf_puts(out, "{\"sonde\":{\"version\":1,\"compared\":{");
    put_recording(out, d, "before", DIFF_BEFORE);
    buf_putc(out, ',');
    put_recording(out, d, "after", DIFF_AFTER);
    buf_puts(out, "}},\n\"shared\":{\"frames\":[");
    for (uint32_t i = 0; i < strings_count(d->names); i++) {
        buf_puts(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        buf_put_json_string(out, strings_get(d->names, i));
        buf_putc(out, '}');
    }
    buf_puts(out, "]},\n\"profiles\":[");
    for (size_t first = 0, end; first < d->stack_count && !buf_error(out); first = end) {
        end = process_end(d, first);
        buf_puts(out, first ? ",\n" : "\n");
        put_process(out, d, first, end);
    }
    buf_puts(out, "]}\n");
    return buf_error(out);
}

/* Name of the program that all stacks belong to; "": several, or unknown. */
static const char *find_program(const struct profile_diff *d)
{
    for (size_t i = 1; i < d->stack_count; i++)
        if (d->stack_names[d->stacks[i].first] != d->stack_names[d->stacks[0].first])
            return "";
    return d->stack_count ? strings_get(d->names, d->stack_names[d->stacks[0].first]) : "";
}

static int put_titled_head(struct buf *out, const struct profile_diff *d)
{
    _cleanup_buf_ struct buf title = {0};
    const char *program = find_program(d);
    buf_printf(&title, "Sonde: %s%s%s, before and after", html_title_of(d->type), program[0] ? " of " : "", program);
    if (d->duration_ns[DIFF_BEFORE] && d->duration_ns[DIFF_AFTER]) {
        char before[32], after[32];
        buf_printf(&title, ": %s, %s", units_format_duration(d->duration_ns[DIFF_BEFORE], before, sizeof(before)),
                   units_format_duration(d->duration_ns[DIFF_AFTER], after, sizeof(after)));
    }
    return buf_error(&title) ? buf_error(&title) : html_put_head(&html_page_flame, title.data, out);
}

int diff_html_write(struct buf *out, const struct profile_diff *d)
{
    int r = put_titled_head(out, d);
    if (r < 0)
        return r;
    r = diff_json_write(out, d);
    return r < 0 ? r : html_put_tail(&html_page_flame, out);
}
