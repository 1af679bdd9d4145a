/* Counts samples in BPF programs, and in the kernel functions they call, by source line; see bpf_lines.h. */
#include "cli/bpf/bpf_lines.h"

#include "cli/table_cell.h"
#include "resolve/kernel/bpf_programs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define LINES_MAX 10000
#define KEY_BYTES 640

struct bpf_line {
    uint64_t samples;
    uint64_t called; /* of those, in kernel functions that the line calls (helpers, maps) */
    uint32_t line;
    const char *file; /* points into key */
    UT_hash_handle hh;
    char key[]; /* function, file and line, each NUL-terminated */
};

void bpf_lines_clear(struct bpf_lines *l)
{
    struct bpf_line *line, *next;
    HASH_ITER (hh, l->all, line, next) {
        HASH_DEL(l->all, line);
        free(line);
    }
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

static struct bpf_line *get_line(struct bpf_lines *l, const struct bpf_place *place)
{
    char key[KEY_BYTES];
    const int function = snprintf(key, 256, "%s", place->function) + 1, start = function > 256 ? 256 : function;
    const int file = snprintf(key + start, 256, "%s", place->file) + 1, line_start = start + (file > 256 ? 256 : file);
    const int size =
        line_start + snprintf(key + line_start, sizeof(key) - (size_t)line_start, "%" PRIu32, place->line) + 1;
    struct bpf_line *line;
    HASH_FIND(hh, l->all, key, (size_t)size, line);
    if (line || HASH_COUNT(l->all) == LINES_MAX)
        return line;
    line = calloc(1, sizeof(*line) + (size_t)size);
    if (!line)
        return NULL;
    memcpy(line->key, key, (size_t)size);
    line->file = line->key + start;
    line->line = place->line;
    HASH_ADD(hh, l->all, key, (size_t)size, line);
    return line;
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
        if (l->name && strncmp(function_name(place.function), l->name, strlen(l->name)) != 0)
            return;
        struct bpf_line *line = get_line(l, &place);
        if (line) {
            line->samples++;
            line->called += i > 0;
        } else {
            l->others++;
        }
        return;
    }
}

static int compare_samples(const struct bpf_line *a, const struct bpf_line *b)
{
    return a->samples != b->samples ? (a->samples < b->samples ? 1 : -1) : strcmp(a->key, b->key);
}

void bpf_lines_put(struct bpf_lines *l, uint64_t duration_ns, unsigned max, struct buf *out)
{
    if (!l->all) {
        buf_printf(out, "\nno lines: none of %" PRIu64 " samples fell in these programs\n", l->samples);
        return;
    }
    buf_printf(out, "\n%7s %8s %8s  %s\n", "CPU", "SAMPLES", "CALLED", "LINE");
    HASH_SORT(l->all, compare_samples);
    unsigned shown = 0;
    for (const struct bpf_line *line = l->all; line && shown < max; line = line->hh.next, shown++) {
        const char *file = strrchr(line->file, '/');
        buf_printf(out, "%6.2f%% %8" PRIu64 " %7.0f%%  ",
                   100.0 * (double)(line->samples * l->period_ns) / (double)duration_ns, line->samples,
                   100.0 * (double)line->called / (double)line->samples);
        table_cell_put(out, function_name(line->key), 0);
        buf_puts(out, " ");
        table_cell_put(out, file ? file + 1 : *line->file ? line->file : "(no line)", 0);
        if (line->line)
            buf_printf(out, ":%" PRIu32, line->line);
        buf_putc(out, '\n');
    }
}

void bpf_lines_put_json(struct bpf_lines *l, struct buf *out)
{
    HASH_SORT(l->all, compare_samples);
    buf_putc(out, '[');
    for (const struct bpf_line *line = l->all; line; line = line->hh.next) {
        buf_puts(out, line == l->all ? "{\"function\":" : ",{\"function\":");
        buf_put_json_string(out, line->key);
        buf_puts(out, ",\"file\":");
        buf_put_json_string(out, line->file);
        buf_printf(out,
                   ",\"line\":%" PRIu32 ",\"samples\":%" PRIu64 ",\"time_ns\":%" PRIu64 ",\"called_ns\":%" PRIu64 "}",
                   line->line, line->samples, line->samples * l->period_ns, line->called * l->period_ns);
    }
    buf_putc(out, ']');
}
