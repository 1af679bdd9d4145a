/* JSON of an interval of `sonde io`, documented in docs/signals/io.md; see io_text.h. */
#include "cli/io/io_text.h"

#include "export/coverage_json.h"

#include <inttypes.h>

static void put_number(struct buf *out, const char *key, uint64_t value)
{
    buf_printf(out, ",\"%s\":%" PRIu64, key, value);
}

static void put_text(struct buf *out, const char *key, const char *text)
{
    buf_printf(out, ",\"%s\":", key);
    buf_put_json_string(out, text);
}

static void put_row(const struct io_row *row, struct buf *out)
{
    buf_putc(out, '{');
    for (unsigned i = 0; i < IO_FIELDS; i++) {
        if (!row->fields[i])
            continue;
        buf_printf(out, "\"%s\":", io_rows_field_name((enum io_field)i));
        buf_put_json_string(out, row->fields[i]);
        buf_putc(out, ',');
    }
    buf_printf(out, "\"read_bytes\":%" PRIu64, row->read_bytes);
    put_number(out, "direct_read_bytes", row->direct_read_bytes);
    put_number(out, "write_bytes", row->write_bytes);
    put_number(out, "reads", row->reads);
    put_number(out, "writes", row->writes);
    put_number(out, "syncs", row->syncs);
    put_number(out, "others", row->others);
    put_number(out, "errors", row->errors);
    put_number(out, "unexpected_errors", row->unexpected_errors);
    put_number(out, "time_ns", row->time_ns);
    put_number(out, "p50_at_most_ns", row->median_ns);
    put_number(out, "p99_at_most_ns", row->p99_ns);
    if (row->counts_misses)
        put_number(out, "cache_missed_bytes", row->missed_bytes);
    buf_putc(out, '}');
}

static void put_busy(const struct io_busy *b, struct buf *out)
{
    buf_printf(out, "{\"process\":%" PRIu32, b->process);
    put_text(out, "command", b->command);
    put_text(out, "script", b->script);
    put_text(out, "manager", b->manager);
    put_text(out, "job_id", b->job_id);
    buf_printf(out, ",\"is_several_processes\":%s", b->is_several ? "true" : "false");
    put_text(out, "operation", b->operation);
    put_number(out, "operations", b->operations);
    put_number(out, "bytes", b->bytes);
    put_number(out, "time_ns", b->ns);
    put_number(out, "files", b->files);
    put_text(out, "path", b->path);
    put_number(out, "path_time_ns", b->path_ns);
    buf_putc(out, '}');
}

static void put_failing(const struct io_failing *f, struct buf *out)
{
    buf_printf(out, "{\"error\":\"%s\",\"operation\":\"%s\"", f->error, f->operation);
    put_number(out, "process", f->process);
    put_text(out, "command", f->command);
    buf_printf(out, ",\"is_several_processes\":%s", f->is_several ? "true" : "false");
    put_text(out, "path", f->path);
    buf_printf(out, ",\"is_expected\":%s", f->is_expected ? "true" : "false");
    put_number(out, "count", f->count);
    buf_putc(out, '}');
}

void io_text_put_json(const struct io_interval_text *t, struct buf *out)
{
    buf_printf(out, "{\"interval_ns\":%" PRIu64 ",\"coverage\":", t->interval_ns);
    coverage_json_put(t->coverage, COVERAGE_IO, out);
    put_number(out, "operations", t->attribution.operations);
    put_number(out, "operations_not_attributed", t->attribution.missing);
    buf_puts(out, ",\"rows\":[");
    for (size_t i = 0; i < t->count; i++) {
        buf_puts(out, i ? "," : "");
        put_row(&t->rows[i], out);
    }
    buf_puts(out, "],\"busiest\":[");
    for (size_t i = 0; i < t->busy_count; i++) {
        buf_puts(out, i ? "," : "");
        put_busy(&t->busy[i], out);
    }
    buf_puts(out, "],\"failures\":[");
    for (size_t i = 0; i < t->failing_count; i++) {
        buf_puts(out, i ? "," : "");
        put_failing(&t->failing[i], out);
    }
    buf_puts(out, "]}\n");
}
