/* Finds the line of each sample, and prints the counts; see bpf_lines.h. */
#include "cli/bpf/bpf_lines.h"

#include "base/table_cell.h"
#include "resolve/kernel/bpf_programs.h"

#include <inttypes.h>
#include <string.h>

void bpf_lines_clear(struct bpf_lines *l)
{
    bpf_line_counts_clear(&l->counts);
}

/* "bpf_prog_6deef7357e7b4530_name" -> "name"; the whole text where it has another form. */
static const char *function_name(const char *function)
{
    static const char prefix[] = "bpf_prog_";
    if (strncmp(function, prefix, sizeof(prefix) - 1) != 0)
        return function;
    const char *name = strchr(function + sizeof(prefix) - 1, '_');
    return name && name[1] ? name + 1 : function;
}

/* Attributes the sample to the innermost BPF program on the stack, as one program may interrupt another. Frames past
 * the first are return addresses: subtracting 1 yields an address within the call instruction. */
void bpf_lines_add(void *context, const uint64_t *addresses, size_t count)
{
    struct bpf_lines *l = context;
    struct bpf_place place;
    l->samples++;
    for (size_t i = 0; i < count; i++) {
        if (!bpf_programs_find(l->programs, addresses[i] - (i > 0), &place))
            continue;
        if (!l->name || strncmp(function_name(place.function), l->name, strlen(l->name)) == 0)
            bpf_line_counts_add(&l->counts, place.function, place.file, place.line, i > 0);
        return;
    }
}

void bpf_lines_put(struct bpf_lines *l, uint64_t duration_ns, unsigned max, struct buf *out)
{
    const struct bpf_line_count *line = bpf_line_counts_first(&l->counts);
    if (!line) {
        buf_printf(out, "\nno lines: none of %" PRIu64 " samples fell in these programs\n", l->samples);
        return;
    }
    buf_printf(out, "\n%7s %8s %8s  %s\n", "CPU", "SAMPLES", "CALLED", "LINE");
    for (unsigned shown = 0; line && shown < max; line = bpf_line_counts_next(line), shown++) {
        const char *file = strrchr(line->file, '/');
        buf_printf(out, "%6.2f%% %8" PRIu64 " %7.0f%%  ",
                   100.0 * (double)(line->samples * l->period_ns) / (double)duration_ns, line->samples,
                   100.0 * (double)line->called / (double)line->samples);
        table_cell_put(out, function_name(line->function), 0);
        buf_puts(out, " ");
        table_cell_put(out, file ? file + 1 : *line->file ? line->file : "(no line)", 0);
        if (line->line)
            buf_printf(out, ":%" PRIu32, line->line);
        buf_putc(out, '\n');
    }
}

void bpf_lines_put_json(struct bpf_lines *l, struct buf *out)
{
    const char *between = "";
    buf_putc(out, '[');
    for (const struct bpf_line_count *line = bpf_line_counts_first(&l->counts); line;
         line = bpf_line_counts_next(line)) {
        buf_printf(out, "%s{\"function\":", between);
        buf_put_json_string(out, line->function);
        buf_puts(out, ",\"file\":");
        buf_put_json_string(out, line->file);
        buf_printf(out,
                   ",\"line\":%" PRIu32 ",\"samples\":%" PRIu64 ",\"time_ns\":%" PRIu64 ",\"called_ns\":%" PRIu64 "}",
                   line->line, line->samples, line->samples * l->period_ns, line->called * l->period_ns);
        between = ",";
    }
    buf_putc(out, ']');
}
