/* Tables of I/O; see io_text.h. */
#include "cli/io/io_text.h"

#include "base/table_cell.h"
#include "base/units.h"
#include "cli/coverage_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BUSY_SHARE_MIN 0.01 /* processes with less are not listed */
#define PROCESS_WIDTH  25
#define ROUNDED_MIN    0.1 /* smaller values are printed as <0.1 */

/* At most; a column is as wide as its widest cell. */
static const int widths[IO_FIELDS] = {[IO_FIELD_JOB] = 50,
                                      [IO_FIELD_CONTAINER] = 16,
                                      [IO_FIELD_MOUNT] = 36,
                                      [IO_FIELD_PROCESS] = 32,
                                      [IO_FIELD_FILE] = 48};
static const char *const headings[IO_FIELDS] = {"JOB", "CONTAINER", "MOUNT", "PROCESS", "FILE"};

/* Of the last field, 0: it is not padded. */
static int width_of(const struct io_interval_text *t, unsigned field)
{
    int width = (int)strlen(headings[field]);
    if (!(t->fields >> (field + 1)))
        return 0;
    for (size_t i = 0; i < t->count; i++)
        if ((int)strlen(t->rows[i].fields[field]) > width)
            width = (int)strlen(t->rows[i].fields[field]);
    return width < widths[field] ? width : widths[field];
}

static void put_rate(uint64_t bytes, uint64_t interval_ns, struct buf *out)
{
    char text[32];
    units_format_size((uint64_t)((double)bytes * 1e9 / (double)interval_ns), text, sizeof(text));
    buf_printf(out, "%10s ", bytes ? text : "-");
}

static void put_count(uint64_t count, uint64_t interval_ns, int width, struct buf *out)
{
    const double rate = (double)count * 1e9 / (double)interval_ns;
    if (!count)
        buf_printf(out, "%*s ", width, "-");
    else if (rate < ROUNDED_MIN)
        buf_printf(out, "%*s ", width, "<0.1");
    else
        buf_printf(out, "%*.*f ", width, rate < 10, rate);
}

static void put_duration(uint64_t ns, struct buf *out)
{
    char text[32];
    buf_printf(out, "%8s ", ns ? units_format_duration(ns, text, sizeof(text)) : "-");
}

/* As a share of the interval: 100 % is one thread that does nothing else. */
static void put_time(uint64_t ns, uint64_t interval_ns, struct buf *out)
{
    const double percent = 100 * (double)ns / (double)interval_ns;
    if (!ns)
        buf_printf(out, "%7s ", "-");
    else if (percent < ROUNDED_MIN)
        buf_printf(out, "%7s ", "<0.1 %");
    else
        buf_printf(out, "%5.*f %% ", percent < 10, percent);
}

/* The share of buffered reads that the page cache had; with read-ahead, more may have been missed than was read. */
static void put_hits(const struct io_row *row, struct buf *out)
{
    const uint64_t buffered = row->read_bytes - row->direct_read_bytes;
    if (!row->counts_misses || !buffered)
        buf_printf(out, "%6s ", "-");
    else if (row->missed_bytes >= buffered)
        buf_puts(out, "   0 % ");
    else
        buf_printf(out, "%4.0f %% ", 100 - 100 * (double)row->missed_bytes / (double)buffered);
}

static void put_row(const struct io_interval_text *t, const struct io_row *row, struct buf *out)
{
    put_time(row->time_ns, t->interval_ns, out);
    put_rate(row->read_bytes, t->interval_ns, out);
    put_hits(row, out);
    put_rate(row->write_bytes, t->interval_ns, out);
    put_count(row->reads, t->interval_ns, 8, out);
    put_count(row->writes, t->interval_ns, 8, out);
    put_count(row->syncs, t->interval_ns, 8, out);
    put_count(row->others, t->interval_ns, 8, out);
    put_count(row->unexpected_errors, t->interval_ns, 7, out);
    put_duration(row->median_ns, out);
    put_duration(row->p99_ns, out);
    for (unsigned i = 0; i < IO_FIELDS; i++) {
        if (!(t->fields & 1u << i))
            continue;
        buf_putc(out, ' ');
        table_cell_put_end(out, row->fields[i], width_of(t, i));
    }
    buf_putc(out, '\n');
}

static void put_process(uint32_t process, bool is_several, const char *command, const char *script, struct buf *out)
{
    char text[48 + IO_SCRIPT_BYTES] = "-";
    if (is_several)
        snprintf(text, sizeof(text), "%s (several)", command[0] ? command : "?");
    else if (process)
        snprintf(text, sizeof(text), "%" PRIu32 " %s%s%s", process, command, script[0] ? " " : "", script);
    table_cell_put(out, text, PROCESS_WIDTH);
}

/* "/srv/journal", or how many files if no file has half of it. */
static void put_busy_file(const struct io_busy *b, struct buf *out)
{
    if (!b->files)
        buf_puts(out, IO_BY_PATH);
    else if (b->files > 1 && b->path_share < 0.5)
        buf_printf(out, "%zu files, among them ", b->files);
    if (b->files)
        table_cell_put(out, b->path, 0);
    if (b->files > 1 && b->path_share >= 0.5)
        buf_printf(out, " and %zu more", b->files - 1);
}

static void put_busy(const struct io_interval_text *t, struct buf *out)
{
    static const char *const most[] = {
        [IO_ORDER_TIME] = "the most I/O time",   [IO_ORDER_BYTES] = "the most bytes",
        [IO_ORDER_READ] = "the most bytes read", [IO_ORDER_WRITE] = "the most bytes written",
        [IO_ORDER_SYNCS] = "the most syncs",     [IO_ORDER_OPERATIONS] = "the most operations"};
    if (!t->busy_count)
        return;
    buf_printf(out, "\nProcesses with %s:\n%7s %8s %10s  %-*s %-9s %s\n", most[t->order], "IO TIME", "OPS/S", "BYTES/S",
               PROCESS_WIDTH, "PROCESS", "OPERATION", "FILE");
    for (size_t i = 0; i < t->busy_count && (i == 0 || t->busy[i].share >= BUSY_SHARE_MIN); i++) {
        const struct io_busy *b = &t->busy[i];
        put_time(b->ns, t->interval_ns, out);
        put_count(b->operations, t->interval_ns, 8, out);
        put_rate(b->bytes, t->interval_ns, out);
        buf_putc(out, ' ');
        put_process(b->process, b->is_several, b->command, b->script, out);
        buf_printf(out, " %-9s ", b->operation);
        put_busy_file(b, out);
        buf_putc(out, '\n');
    }
}

/* Appends expected errors in one line, the others as a table. */
static void put_failing(const struct io_interval_text *t, struct buf *out)
{
    size_t i = 0;
    if (t->failing_count && !t->failing[0].is_expected)
        buf_printf(out, "\nFailed operations:\n%7s %-12s %-9s %-*s %s\n", "ERR/S", "ERROR", "OPERATION", PROCESS_WIDTH,
                   "PROCESS", "FILE");
    for (; i < t->failing_count && !t->failing[i].is_expected; i++) {
        const struct io_failing *f = &t->failing[i];
        put_count(f->count, t->interval_ns, 7, out);
        buf_printf(out, "%-12s %-9s ", f->error, f->operation);
        put_process(f->process, f->is_several, f->command, "", out);
        buf_putc(out, ' ');
        table_cell_put(out, f->path[0] ? f->path : "(path not known)", 0);
        buf_putc(out, '\n');
    }
    if (i == t->failing_count)
        return;
    buf_puts(out, "\nErrors a second that programs expect, for example while they look for files:");
    for (const char *separator = " "; i < t->failing_count; i++, separator = ", ")
        buf_printf(out, "%s%s of %s %.1f", separator, t->failing[i].error, t->failing[i].operation,
                   (double)t->failing[i].count * 1e9 / (double)t->interval_ns);
    buf_putc(out, '\n');
}

/* Whether a field of a row is this text. */
static bool has_field(const struct io_interval_text *t, const char *text)
{
    for (size_t k = 0; k < t->count; k++)
        for (size_t i = 0; i < IO_FIELDS; i++)
            if (t->rows[k].fields[i] && strcmp(t->rows[k].fields[i], text) == 0)
                return true;
    return false;
}

/* What cannot be seen in the table. */
static void put_legend(const struct io_interval_text *t, struct buf *out)
{
    buf_puts(out, "\nIO TIME: time in I/O calls; 100 % is one thread that does nothing but I/O. P50, P99: at most.\n");
    if (has_field(t, IO_BY_PATH))
        buf_puts(out,
                 IO_BY_PATH ": stat, unlink, failed opens and other calls that name a path instead of an open file.\n");
}

static void put_attribution(const struct io_interval_text *t, struct buf *out)
{
    const struct io_attribution *a = &t->attribution;
    if (!a->missing)
        return;
    buf_printf(out,
               IO_NOT_ATTRIBUTED ": %.1f %% of the operations (%" PRIu64 " of %" PRIu64
                                 ") came when the kernel's table was full. ",
               100 * (double)a->missing / (double)a->operations, a->missing, a->operations);
    if (t->fields & 1u << IO_FIELD_FILE)
        buf_puts(out, "Leave \"file\" out of --by.\n");
    else if (t->fields & 1u << IO_FIELD_PROCESS)
        buf_puts(out, "Leave \"process\" out of --by: --by job,mount.\n");
    else
        buf_puts(out, "More jobs and mounts are in use than it holds.\n");
}

void io_text_put(const struct io_interval_text *t, struct buf *out)
{
    if (!t->count) {
        coverage_text_put_nothing(t->coverage, COVERAGE_IO, out);
        return;
    }
    buf_printf(out, "%7s %10s %6s %10s %8s %8s %8s %8s %7s %8s %8s ", "IO TIME", "READ/S", "CACHED", "WRITE/S",
               "READS/S", "WRITES/S", "SYNCS/S", "OTHERS/S", "ERR/S", "P50", "P99");
    for (unsigned i = 0; i < IO_FIELDS; i++)
        if (t->fields & 1u << i)
            buf_printf(out, " %-*s", width_of(t, i), headings[i]);
    buf_putc(out, '\n');
    for (size_t k = 0; k < t->count; k++)
        put_row(t, &t->rows[k], out);
    if (t->omitted)
        buf_printf(out, "and %zu more (--top)\n", t->omitted);
    put_legend(t, out);
    put_attribution(t, out);
    put_busy(t, out);
    put_failing(t, out);
}
