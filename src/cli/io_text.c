/* Tables and JSON of I/O; see io_text.h. */
#include "cli/io_text.h"

#include "base/units.h"
#include "cli/table_cell.h"

#include <inttypes.h>
#include <stdio.h>

/* Of the last field, 0: as wide as it is. */
static const int widths[IO_FIELDS] = {[IO_FIELD_JOB] = 50,
                                      [IO_FIELD_CONTAINER] = 13,
                                      [IO_FIELD_MOUNT] = 32,
                                      [IO_FIELD_PROCESS] = 24,
                                      [IO_FIELD_FILE] = 48};
static const char *const headings[IO_FIELDS] = {"JOB", "CONTAINER", "MOUNT", "PROCESS", "FILE"};

static int width_of(unsigned fields, unsigned field)
{
    return fields >> (field + 1) ? widths[field] : 0;
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
    if (count)
        buf_printf(out, "%*.*f ", width, rate < 10, rate);
    else
        buf_printf(out, "%*s ", width, "-");
}

static void put_duration(uint64_t ns, struct buf *out)
{
    char text[32];
    buf_printf(out, "%8s ", ns ? units_format_duration(ns, text, sizeof(text)) : "-");
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

void io_text_put(const struct io_row *rows, size_t count, unsigned fields, uint64_t interval_ns, struct buf *out)
{
    buf_printf(out, "%10s %6s %10s %8s %8s %8s %7s %8s %8s ", "READ/S", "CACHED", "WRITE/S", "READS/S", "WRITES/S",
               "OTHERS/S", "ERR/S", "P50", "P99");
    for (unsigned i = 0; i < IO_FIELDS; i++)
        if (fields & 1u << i)
            buf_printf(out, " %-*s", width_of(fields, i), headings[i]);
    buf_putc(out, '\n');
    for (size_t k = 0; k < count; k++) {
        const struct io_row *row = &rows[k];
        put_rate(row->read_bytes, interval_ns, out);
        put_hits(row, out);
        put_rate(row->write_bytes, interval_ns, out);
        put_count(row->reads, interval_ns, 8, out);
        put_count(row->writes, interval_ns, 8, out);
        put_count(row->others, interval_ns, 8, out);
        put_count(row->errors, interval_ns, 7, out);
        put_duration(row->median_ns, out);
        put_duration(row->p99_ns, out);
        for (unsigned i = 0; i < IO_FIELDS; i++) {
            if (!(fields & 1u << i))
                continue;
            buf_putc(out, ' ');
            table_cell_put(out, row->fields[i], width_of(fields, i));
        }
        buf_putc(out, '\n');
    }
}

void io_text_put_json(const struct io_row *rows, size_t count, uint64_t interval_ns, struct buf *out)
{
    buf_printf(out, "{\"interval_ns\":%" PRIu64 ",\"rows\":[", interval_ns);
    for (size_t k = 0; k < count; k++) {
        const struct io_row *row = &rows[k];
        buf_puts(out, k ? ",{" : "{");
        for (unsigned i = 0; i < IO_FIELDS; i++) {
            if (!row->fields[i])
                continue;
            buf_printf(out, "\"%s\":", io_rows_field_name((enum io_field)i));
            buf_put_json_string(out, row->fields[i]);
            buf_putc(out, ',');
        }
        buf_printf(out,
                   "\"read_bytes\":%" PRIu64 ",\"direct_read_bytes\":%" PRIu64 ",\"write_bytes\":%" PRIu64
                   ",\"reads\":%" PRIu64 ",\"writes\":%" PRIu64 ",\"others\":%" PRIu64 ",\"errors\":%" PRIu64
                   ",\"time_ns\":%" PRIu64 ",\"p50_at_most_ns\":%" PRIu64 ",\"p99_at_most_ns\":%" PRIu64,
                   row->read_bytes, row->direct_read_bytes, row->write_bytes, row->reads, row->writes, row->others,
                   row->errors, row->time_ns, row->median_ns, row->p99_ns);
        if (row->counts_misses)
            buf_printf(out, ",\"cache_missed_bytes\":%" PRIu64, row->missed_bytes);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}\n");
}
