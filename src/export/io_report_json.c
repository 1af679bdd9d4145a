/* JSON of an I/O report; see io_report_json.h and docs/signals/io.md. */
#include "export/io_report_json.h"

#include "export/coverage_json.h"
#include "model/io_merge.h"

#include <inttypes.h>

#define FAILURES_MAX 1000

/* ---- members of an object; all but the first have a comma before them ---- */

static void put_text(struct buf *out, const char *key, const char *text)
{
    buf_printf(out, ",\"%s\":", key);
    buf_put_json_string(out, text);
}

static void put_number(struct buf *out, const char *key, uint64_t value)
{
    buf_printf(out, ",\"%s\":%" PRIu64, key, value);
}

static void put_time(struct buf *out, const char *key, const struct io_report_time *t)
{
    buf_printf(out, ",\"%s\":{\"first_ns\":%" PRIu64 ",\"last_ns\":%" PRIu64 ",\"time_ns\":%" PRIu64 "}", key,
               t->first_ns, t->last_ns, t->ns);
}

static void put_common(struct buf *out, const char *key, const struct io_report_common common[IO_REPORT_COMMON])
{
    buf_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < IO_REPORT_COMMON && common[i].count; i++)
        buf_printf(out, "%s{\"bytes\":%" PRIu64 ",\"count\":%" PRIu64 "}", i ? "," : "", common[i].value,
                   common[i].count);
    buf_putc(out, ']');
}

/* ---- files ---- */

static void put_accesses(struct buf *out, const char *key, const struct io_report_accesses *a)
{
    buf_printf(out, ",\"%s\":{\"operations\":%" PRIu64, key, a->operations);
    put_number(out, "bytes", a->bytes);
    put_number(out, "located", a->located);
    put_number(out, "followed", a->followed);
    put_number(out, "sequential", a->sequential);
    put_number(out, "consecutive", a->consecutive);
    put_number(out, "unaligned", a->unaligned);
    put_number(out, "end_offset_bytes", a->end_offset);
    buf_puts(out, ",\"sizes\":[");
    for (size_t i = 0; i < IO_REPORT_SIZES; i++)
        buf_printf(out, "%s%" PRIu64, i ? "," : "", a->sizes[i]);
    buf_putc(out, ']');
    put_number(out, "slowest_ns", a->slowest_ns);
    put_number(out, "slowest_bytes", a->slowest_bytes);
    put_number(out, "first_ns", a->time.first_ns);
    put_number(out, "last_ns", a->time.last_ns);
    put_number(out, "time_ns", a->time.ns);
    buf_putc(out, '}');
}

static void put_file(struct buf *out, const struct io_report_file *f)
{
    buf_puts(out, "{\"path\":");
    buf_put_json_string(out, f->path);
    put_text(out, "mount_point", f->mount_point);
    put_text(out, "file_system", f->file_system);
    put_number(out, "inode", f->inode);
    put_number(out, "process", f->process);
    put_number(out, "block_bytes", f->block_bytes);
    put_accesses(out, "reads", &f->reads);
    put_accesses(out, "writes", &f->writes);
    put_number(out, "switches", f->switches);
    put_number(out, "opens", f->opens);
    put_number(out, "creates", f->creates);
    put_number(out, "closes", f->closes);
    put_number(out, "stats", f->stats);
    put_number(out, "syncs", f->syncs);
    put_number(out, "truncates", f->truncates);
    put_number(out, "lists", f->lists);
    put_number(out, "others", f->others);
    put_number(out, "maps", f->maps);
    put_number(out, "mapped_bytes", f->mapped_bytes);
    put_number(out, "errors", f->errors);
    put_number(out, "direct", f->direct);
    put_time(out, "open", &f->open);
    put_time(out, "close", &f->close);
    put_time(out, "sync", &f->sync);
    put_time(out, "metadata", &f->metadata);
    put_common(out, "common_sizes", f->sizes);
    put_common(out, "common_strides", f->strides);
    buf_putc(out, '}');
}

/* ---- heatmap ---- */

static void put_cells(struct buf *out, const struct io_report *report, size_t process)
{
    const struct io_report_cell *cells = report->cells ? &report->cells[process * report->interval_count] : NULL;
    buf_puts(out, "{\"read_bytes\":[");
    for (size_t i = 0; cells && i < report->interval_count; i++)
        buf_printf(out, "%s%" PRIu64, i ? "," : "", cells[i].read_bytes);
    buf_puts(out, "],\"write_bytes\":[");
    for (size_t i = 0; cells && i < report->interval_count; i++)
        buf_printf(out, "%s%" PRIu64, i ? "," : "", cells[i].write_bytes);
    buf_puts(out, "]}");
}

/* ---- findings ---- */

static void put_figures(struct buf *out, const struct io_finding *finding)
{
    static const char *const suffixes[] = {[IO_UNIT_COUNT] = "", [IO_UNIT_NS] = "_ns", [IO_UNIT_BYTES] = "_bytes"};
    buf_puts(out, ",\"figures\":{");
    for (size_t i = 0; i < IO_FINDING_FIGURES && finding->figures[i].name; i++) {
        const struct io_figure *f = &finding->figures[i];
        buf_printf(out, "%s\"%s%s\":%" PRIu64, i ? "," : "", f->name, suffixes[f->unit], f->value);
    }
    buf_putc(out, '}');
}

static void put_finding(struct buf *out, const struct io_finding *finding)
{
    buf_printf(out, "{\"name\":\"%s\",\"operation\":\"%s\",\"severity\":\"%s\",\"share\":%.6f", finding->name,
               finding->operation, io_severity_name(finding->severity), finding->share);
    put_number(out, "time_ns", finding->time_ns);
    if (finding->file) {
        put_text(out, "file", finding->file->path);
        put_number(out, "other_files", finding->other_files);
    }
    put_number(out, "process", finding->process);
    put_figures(out, finding);
    put_text(out, "change", finding->sentence);
    buf_putc(out, '}');
}

/* ---- failures ---- */

static void put_failures(struct buf *out, const struct io_report *report)
{
    buf_puts(out, "],\n\"failures\":[");
    for (size_t i = 0; i < report->failure_count && i < FAILURES_MAX && !buf_error(out); i++) {
        const struct io_failure *f = &report->failures[i];
        buf_printf(out, "%s{\"error\":\"%s\",\"operation\":\"%s\"", i ? ",\n" : "\n", f->error, f->operation);
        put_text(out, "path", f->path);
        put_number(out, "process", f->process);
        buf_printf(out, ",\"is_expected\":%s", f->is_expected ? "true" : "false");
        put_number(out, "count", f->count);
        buf_putc(out, '}');
    }
}

/* ---- the report ---- */

static void put_head(struct buf *out, const struct io_report *report)
{
    buf_puts(out, "{\"title\":");
    buf_put_json_string(out, report->title);
    put_text(out, "executable", report->executable);
    put_text(out, "job_id", report->job_id);
    put_number(out, "start_unix_ns", report->start_unix_ns);
    put_number(out, "duration_ns", report->duration_ns);
    put_number(out, "uid", report->uid);
    buf_puts(out, ",\"coverage\":");
    coverage_json_put(&report->coverage, COVERAGE_IO, out);
    put_number(out, "lost_operations", report->lost);
    put_number(out, "pending_operations", report->pending);
    put_number(out, "waits_observed_ns", report->waits_observed_ns);
    put_number(out, "waits_unknown_ns", report->waits_unknown_ns);
    buf_puts(out, ",\"size_bins_bytes\":[");
    for (size_t i = 0; i < IO_REPORT_SIZES - 1; i++)
        buf_printf(out, "%s%" PRIu64, i ? "," : "", io_size_bounds[i]);
    buf_putc(out, ']');
}

int io_report_json_put(const struct io_report *report, const struct io_finding *findings, size_t finding_count,
                       struct buf *out)
{
    put_head(out, report);
    buf_puts(out, ",\n\"findings\":[");
    for (size_t i = 0; i < finding_count; i++) {
        buf_puts(out, i ? ",\n" : "\n");
        put_finding(out, &findings[i]);
    }
    put_failures(out, report);
    buf_puts(out, "],\n\"processes\":[");
    for (size_t i = 0; i < report->process_count; i++) {
        buf_printf(out, "%s{\"pid\":%" PRIu32, i ? ",\n" : "\n", report->processes[i].pid);
        put_text(out, "command", report->processes[i].command);
        buf_putc(out, '}');
    }
    buf_puts(out, "],\n\"files\":[");
    for (size_t i = 0; i < report->file_count && !buf_error(out); i++) {
        buf_puts(out, i ? ",\n" : "\n");
        put_file(out, &report->files[i]);
    }
    buf_printf(out, "],\n\"heatmap\":{\"interval_ns\":%" PRIu64 ",\"processes\":[", report->interval_ns);
    for (size_t i = 0; i < report->process_count && !buf_error(out); i++) {
        buf_puts(out, i ? ",\n" : "\n");
        put_cells(out, report, i);
    }
    buf_puts(out, "]}}\n");
    return buf_error(out);
}
