/* Text of an I/O report; see io_report_text.h. */
#include "export/io_report_text.h"

#include "base/units.h"
#include "base/utf8.h"
#include "model/io_merge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define COLUMNS        100
#define FILES          20 /* of the table: those with the most time */
#define FAILING_GROUPS 6  /* of failed operations, by error and operation: those with the most */
#define STRIPS         8  /* processes with a strip of their own: those with the most bytes */
#define STRIP_WIDTH    72
#define BAR_WIDTH      12
#define NUMBER_BYTES   32
#define UNKNOWN_SHARE  20 /* unknown waits get a line if they are at least one part in this many of all waits */

/* ---- parts of lines ---- */

/* Appends `text` without control characters, in at most `columns` characters: of a longer text the end, as the end of a
 * path says most. */
static void put_name(struct buf *out, const char *text, size_t columns)
{
    _cleanup_buf_ struct buf clean = {0};
    buf_put_shown(&clean, text);
    if (buf_error(&clean) && !out->error)
        out->error = buf_error(&clean);
    if (!clean.size)
        return;
    const size_t characters = utf8_count(clean.data, clean.size);
    if (characters > columns)
        buf_puts(out, "...");
    buf_puts(out, utf8_skip(clean.data, characters > columns ? characters + strlen("...") - columns : 0));
}

static void put_file_name(struct buf *out, const char *path, size_t columns)
{
    put_name(out, path[0] ? path : "(calls that name a path)", columns);
}

static void put_count(struct buf *out, uint64_t count, int width)
{
    char text[NUMBER_BYTES];
    buf_printf(out, "%*s", width, count ? units_format_count(count, text, sizeof(text)) : "-");
}

static void put_size(struct buf *out, uint64_t bytes, int width)
{
    char text[NUMBER_BYTES];
    buf_printf(out, "%*s", width, bytes ? units_format_size(bytes, text, sizeof(text)) : "-");
}

static void put_duration(struct buf *out, uint64_t ns, int width)
{
    char text[NUMBER_BYTES];
    buf_printf(out, "%*s", width, ns ? units_format_duration(ns, text, sizeof(text)) : "-");
}

static void put_share(struct buf *out, uint64_t part, uint64_t whole)
{
    buf_printf(out, " %5.1f %%", whole ? 100 * (double)part / (double)whole : 0);
}

static uint64_t per_second(uint64_t bytes, uint64_t ns)
{
    return ns ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

/* ---- head ---- */

static void put_when(struct buf *out, const struct io_report *report)
{
    const time_t seconds = (time_t)(report->start_unix_ns / UINT64_C(1000000000));
    char when[32] = "", duration[NUMBER_BYTES];
    struct tm utc;
    if (gmtime_r(&seconds, &utc))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &utc);
    buf_printf(out, "  from %s for %s", when, units_format_duration(report->duration_ns, duration, sizeof(duration)));
}

static void put_whose(struct buf *out, const struct io_report *report, size_t files)
{
    char processes[NUMBER_BYTES], files_text[NUMBER_BYTES];
    if (report->executable[0]) {
        buf_puts(out, "  command: ");
        put_name(out, report->executable, COLUMNS - 11);
        buf_putc(out, '\n');
    }
    buf_printf(out, "  %s %s, %s %s, user %" PRIu32,
               units_format_count(report->process_count, processes, sizeof(processes)),
               report->process_count == 1 ? "process" : "processes",
               units_format_count(files, files_text, sizeof(files_text)), files == 1 ? "file" : "files", report->uid);
    if (report->job_id[0]) {
        buf_puts(out, ", job ");
        put_name(out, report->job_id, 40);
    }
    buf_putc(out, '\n');
}

static void put_total(struct buf *out, const char *name, uint64_t operations, uint64_t bytes, uint64_t ns,
                      uint64_t all_ns)
{
    buf_printf(out, "  %-10s", name);
    put_count(out, operations, 14);
    put_size(out, bytes, 12);
    put_duration(out, ns, 10);
    put_share(out, ns, all_ns);
    put_size(out, per_second(bytes, ns), 12);
    buf_puts(out, bytes && ns ? "/s\n" : "\n");
}

static void put_head(struct buf *out, const struct io_report *report, size_t files)
{
    buf_puts(out, "I/O of ");
    put_name(out, report->title, COLUMNS - 7);
    buf_putc(out, '\n');
    put_when(out, report);
    buf_putc(out, '\n');
    put_whose(out, report, files);
    if (report->lost) {
        char lost[NUMBER_BYTES];
        buf_printf(out, "\n  INCOMPLETE: %s operations did not fit the tables and are missing below.\n",
                   units_format_count(report->lost, lost, sizeof(lost)));
    }
    if (report->pending) {
        char pending[NUMBER_BYTES];
        buf_printf(out, "\n  %s operations had not ended: they and their time are missing below.\n",
                   units_format_count(report->pending, pending, sizeof(pending)));
    }
    if (report->waits_unknown_ns > report->waits_observed_ns / UNKNOWN_SHARE) {
        char unknown[NUMBER_BYTES];
        buf_printf(out, "\n  What main threads waited for is not known for %s: input_bound may be more.\n",
                   units_format_duration(report->waits_unknown_ns, unknown, sizeof(unknown)));
    }
}

static void put_totals(struct buf *out, const struct io_report_file *all)
{
    const uint64_t all_ns = io_file_time_ns(all);
    buf_printf(out, "\n  %-10s%14s%12s%10s%8s%14s\n", "", "OPERATIONS", "BYTES", "TIME", "SHARE", "BANDWIDTH");
    put_total(out, "read", all->reads.operations, all->reads.bytes, all->reads.time.ns, all_ns);
    put_total(out, "write", all->writes.operations, all->writes.bytes, all->writes.time.ns, all_ns);
    put_total(out, "metadata", io_file_metadata_operations(all), 0, all->metadata.ns, all_ns);
    if (all->maps)
        put_total(out, "mapped", all->maps, all->mapped_bytes, 0, all_ns);
    buf_puts(out, "  Times are sums over all threads. Shares are of I/O time; bandwidths are bytes by call time.\n");
}

/* ---- failed operations ---- */

static bool fail_alike(const struct io_failure *a, const struct io_failure *b)
{
    return strcmp(a->error, b->error) == 0 && strcmp(a->operation, b->operation) == 0;
}

/* Failures of one error and operation: the file with the most, and how many others. */
struct failing {
    const struct io_failure *most;
    uint64_t count;
    size_t others;
};

/* Groups the failures `[first, end)` of the report, which are of one kind; the groups with the most first. */
static size_t group_failures(const struct io_failure *first, const struct io_failure *end,
                             struct failing groups[FAILING_GROUPS])
{
    size_t count = 0;
    for (const struct io_failure *f = first; f < end; f++) {
        size_t i = 0;
        while (i < count && !fail_alike(groups[i].most, f))
            i++;
        if (i == FAILING_GROUPS)
            continue;
        if (i == count)
            groups[count++] = (struct failing){.most = f};
        else
            groups[i].others += strcmp(groups[i].most->path, f->path) != 0;
        groups[i].count += f->count;
    }
    return count;
}

static uint64_t put_failing(struct buf *out, const struct io_failure *first, const struct io_failure *end)
{
    struct failing groups[FAILING_GROUPS];
    const size_t count = group_failures(first, end, groups);
    uint64_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        char more[NUMBER_BYTES + 32] = "", number[NUMBER_BYTES];
        if (groups[i].others)
            snprintf(more, sizeof(more), " and %s more", units_format_count(groups[i].others, number, sizeof(number)));
        put_count(out, groups[i].count, 12);
        buf_printf(out, "  %-12s %-9s ", groups[i].most->error, groups[i].most->operation);
        put_name(out, groups[i].most->path[0] ? groups[i].most->path : "(path not known)", COLUMNS - 37 - strlen(more));
        buf_printf(out, "%s\n", more);
        shown += groups[i].count;
    }
    return shown;
}

/* `failures`: how many operations failed, of the report's files. */
static void put_failures(struct buf *out, const struct io_report *report, uint64_t failures)
{
    const struct io_failure *list = report->failures, *end = list + report->failure_count, *expected = list;
    uint64_t unexpected = 0;
    char number[NUMBER_BYTES];
    if (!failures)
        return;
    for (; expected < end && !expected->is_expected; expected++)
        unexpected += expected->count;
    if (unexpected) {
        buf_printf(out, "\n  %s %s failed:\n", units_format_count(unexpected, number, sizeof(number)),
                   unexpected == 1 ? "operation" : "operations");
        put_failing(out, list, expected);
    }
    if (failures <= unexpected)
        return;
    buf_printf(out, "\n  %s%s failed as programs expect, for example while they look for files:\n",
               units_format_count(failures - unexpected, number, sizeof(number)),
               unexpected      ? " more"
               : failures == 1 ? " operation"
                               : " operations");
    const uint64_t shown = unexpected + put_failing(out, expected, end);
    if (shown < failures) {
        put_count(out, failures - shown, 12);
        buf_puts(out, "  (others)\n");
    }
}

/* ---- findings ---- */

/* Appends words in lines of at most COLUMNS, each after `indent` blanks. */
static void put_wrapped(struct buf *out, const char *text, int indent)
{
    size_t column = 0;
    for (const char *word = text; *word;) {
        const size_t size = strcspn(word, " ");
        if (column && column + 1 + size > COLUMNS) {
            buf_putc(out, '\n');
            column = 0;
        }
        if (column)
            buf_putc(out, ' ');
        else
            buf_printf(out, "%*s", indent, "");
        column += column ? 1 + size : (size_t)indent + size;
        buf_append(out, word, size);
        word += size + (word[size] == ' ');
    }
    buf_putc(out, '\n');
}

static void put_finding(struct buf *out, const struct io_report *report, const struct io_finding *finding)
{
    const struct io_report_process *process = &report->processes[finding->process];
    buf_printf(out, "  %-6s %5.1f %%  %s%s%s%s\n", io_severity_name(finding->severity), 100 * finding->share,
               finding->name, finding->operation[0] ? " (" : "", finding->operation, finding->operation[0] ? ")" : "");
    put_wrapped(out, finding->sentence, 18);
    buf_printf(out, "%18s", "");
    if (finding->file) {
        char others[2 * NUMBER_BYTES + 48] = "", count[NUMBER_BYTES];
        int size = 0;
        if (finding->other_files)
            size = snprintf(others, sizeof(others), " and %s other %s",
                            units_format_count(finding->other_files, count, sizeof(count)),
                            finding->other_files == 1 ? "file" : "files");
        if (report->process_count > 1)
            snprintf(others + size, sizeof(others) - (size_t)size, "; costs process %" PRIu32 " most", process->pid);
        put_file_name(out, finding->file->path, COLUMNS - 18 - strlen(others));
        buf_puts(out, others);
    } else {
        buf_printf(out, "process %" PRIu32 " ", process->pid);
        put_name(out, process->command, 40);
    }
    buf_putc(out, '\n');
}

static void put_findings(struct buf *out, const struct io_report *report, const struct io_finding *findings,
                         size_t count)
{
    buf_puts(out, "\nFindings, by the share of the observed time that they explain\n");
    if (!count)
        buf_puts(out, "  None: nothing that can be changed explains 1 % of the time.\n");
    for (size_t i = 0; i < count; i++)
        put_finding(out, report, &findings[i]);
}

/* In place of all tables. */
static void put_nothing(struct buf *out, const struct coverage *coverage)
{
    buf_puts(out, "\n  ");
    coverage_put_nothing(coverage, COVERAGE_IO, out);
    buf_putc(out, '\n');
    for (size_t i = 0; i < coverage->gap_count; i++)
        put_wrapped(out, coverage->gaps[i].text, 2);
}

/* ---- files ---- */

static void put_file(struct buf *out, const struct io_merged_file *file, uint64_t all_ns)
{
    const struct io_report_file *f = &file->sum;
    const uint64_t ns = io_file_time_ns(f);
    put_duration(out, ns, 10);
    put_share(out, ns, all_ns);
    put_size(out, f->reads.bytes, 10);
    put_size(out, f->writes.bytes, 10);
    put_count(out, f->reads.operations + f->writes.operations, 12);
    put_count(out, io_file_metadata_operations(f), 10);
    put_count(out, file->process_count, 6);
    buf_puts(out, "  ");
    put_file_name(out, f->path, COLUMNS - 68);
    buf_putc(out, '\n');
}

static void put_files(struct buf *out, const struct io_merged_file *files, size_t count, uint64_t all_ns)
{
    buf_puts(out, "\nFiles\n");
    buf_printf(out, "%10s%8s%10s%10s%12s%10s%6s  %s\n", "TIME", "SHARE", "READ", "WRITTEN", "ACCESSES", "METADATA",
               "PROCS", "FILE");
    for (size_t i = 0; i < count && i < FILES; i++)
        put_file(out, &files[i], all_ns);
    if (count > FILES) {
        char more[NUMBER_BYTES];
        buf_printf(out, "%10s %s more with less time\n", "...", units_format_count(count - FILES, more, sizeof(more)));
    }
}

/* ---- access sizes and patterns ---- */

static void put_bin(struct buf *out, const struct io_report_accesses *a, size_t bin)
{
    static const char bar[] = "############";
    const double share = a->operations ? (double)a->sizes[bin] / (double)a->operations : 0;
    put_count(out, a->sizes[bin], 15);
    put_share(out, a->sizes[bin], a->operations);
    buf_printf(out, "  %-*.*s", BAR_WIDTH, (int)(share * BAR_WIDTH + 0.5), bar);
}

static void put_sizes(struct buf *out, const struct io_report_file *all)
{
    static const char *const names[IO_REPORT_SIZES] = {"to 100 B", "to 1 KiB",  "to 10 KiB",  "to 100 KiB", "to 1 MiB",
                                                       "to 4 MiB", "to 10 MiB", "to 100 MiB", "to 1 GiB",   "more"};
    buf_printf(out, "\nAccess sizes\n%12s%15s%22s%15s\n", "", "READS", "", "WRITES");
    for (size_t i = 0; i < IO_REPORT_SIZES; i++) {
        if (!all->reads.sizes[i] && !all->writes.sizes[i])
            continue;
        buf_printf(out, "%12s", names[i]);
        put_bin(out, &all->reads, i);
        put_bin(out, &all->writes, i);
        while (out->size && out->data[out->size - 1] == ' ')
            out->size--;
        buf_putc(out, '\n');
    }
}

static void put_common(struct buf *out, const char *name, const struct io_report_common common[IO_REPORT_COMMON])
{
    if (!common[0].count)
        return;
    buf_printf(out, "  %s:", name);
    for (size_t i = 0; i < IO_REPORT_COMMON && common[i].count; i++) {
        char value[NUMBER_BYTES], count[NUMBER_BYTES];
        buf_printf(out, "%s %s (%s times)", i ? "," : "", units_format_count(common[i].value, value, sizeof(value)),
                   units_format_count(common[i].count, count, sizeof(count)));
    }
    buf_putc(out, '\n');
}

static void put_pattern(struct buf *out, const char *name, const struct io_report_accesses *a)
{
    char slowest[NUMBER_BYTES], bytes[NUMBER_BYTES];
    if (!a->operations)
        return;
    buf_printf(out, "  %-7s", name);
    if (a->located) {
        put_share(out, a->sequential, a->followed);
        buf_puts(out, " sequential,");
        put_share(out, a->consecutive, a->followed);
        buf_puts(out, " consecutive,");
        put_share(out, a->unaligned, a->located);
        buf_puts(out, " unaligned; ");
    }
    buf_printf(out, "slowest: %s for %s\n", units_format_duration(a->slowest_ns, slowest, sizeof(slowest)),
               units_format_size(a->slowest_bytes, bytes, sizeof(bytes)));
}

static void put_patterns(struct buf *out, const struct io_report_file *all)
{
    buf_puts(out, "\nAccess patterns\n");
    put_pattern(out, "reads", &all->reads);
    put_pattern(out, "writes", &all->writes);
    put_common(out, "most frequent sizes in bytes", all->sizes);
    put_common(out, "most frequent strides in bytes", all->strides);
}

/* ---- heatmap ---- */

struct strip {
    const char *name;
    uint32_t pid;      /* 0: all processes */
    uint64_t bytes;    /* of all intervals */
    uint64_t *columns; /* bytes */
};

static int compare_strips(const void *left, const void *right)
{
    const struct strip *a = left, *b = right;
    return a->bytes != b->bytes ? (a->bytes > b->bytes ? -1 : 1) : (a->pid > b->pid) - (a->pid < b->pid);
}

/* A blank is nothing, and each further character a fourth part of the next one's bytes. */
static void put_strip(struct buf *out, const struct strip *strip, size_t columns, uint64_t most)
{
    static const char levels[] = ".:-=+*#@";
    const size_t start = out->size;
    if (strip->pid)
        buf_printf(out, "  %" PRIu32 " ", strip->pid);
    else
        buf_puts(out, "  ");
    put_name(out, strip->name, 12);
    buf_printf(out, "%*s|", out->size - start < 24 ? (int)(24 - (out->size - start)) : 1, "");
    for (size_t i = 0; i < columns; i++) {
        size_t level = sizeof(levels) - 2;
        for (uint64_t limit = most / 4; level && strip->columns[i] <= limit; limit /= 4)
            level--;
        buf_putc(out, strip->columns[i] ? levels[level] : ' ');
    }
    buf_puts(out, "|\n");
}

static void sum_cells(const struct io_report *report, size_t process, size_t per_column, struct strip *all_reads,
                      struct strip *all_writes, struct strip *own)
{
    for (size_t i = 0; i < report->interval_count; i++) {
        const struct io_report_cell *cell = &report->cells[process * report->interval_count + i];
        all_reads->columns[i / per_column] += cell->read_bytes;
        all_writes->columns[i / per_column] += cell->write_bytes;
        own->columns[i / per_column] += cell->read_bytes + cell->write_bytes;
        own->bytes += cell->read_bytes + cell->write_bytes;
    }
}

static uint64_t most_of_strips(const struct strip *strips, size_t count, size_t columns)
{
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < columns; k++)
            if (strips[i].columns[k] > most)
                most = strips[i].columns[k];
    return most;
}

static int put_heatmap(struct buf *out, const struct io_report *report)
{
    const size_t per_column = (report->interval_count + STRIP_WIDTH - 1) / STRIP_WIDTH;
    const size_t columns = per_column ? (report->interval_count + per_column - 1) / per_column : 0;
    const size_t count = report->process_count;
    if (!columns || !count || !report->cells)
        return 0;
    _cleanup_free_ struct strip *strips = calloc(count + 2, sizeof(*strips));
    _cleanup_free_ uint64_t *cells = calloc((count + 2) * columns, sizeof(*cells));
    if (!strips || !cells)
        return -ENOMEM;
    for (size_t i = 0; i < count + 2; i++)
        strips[i].columns = &cells[i * columns];
    strips[0].name = "all reads";
    strips[1].name = "all writes";
    for (size_t i = 0; i < count; i++) {
        strips[i + 2].name = report->processes[i].command;
        strips[i + 2].pid = report->processes[i].pid;
        sum_cells(report, i, per_column, &strips[0], &strips[1], &strips[i + 2]);
    }
    qsort(strips + 2, count, sizeof(*strips), compare_strips);
    char interval[NUMBER_BYTES], bytes[NUMBER_BYTES];
    const uint64_t most = most_of_strips(strips, count + 2, columns);
    buf_printf(out, "\nBytes over time; a column is %s, @ up to %s, each of .:-=+*# a fourth of the next\n",
               units_format_duration(report->interval_ns * per_column, interval, sizeof(interval)),
               units_format_size(most, bytes, sizeof(bytes)));
    const size_t shown = count == 1 ? 2 : count + 2 < 2 + STRIPS ? count + 2 : 2 + STRIPS;
    for (size_t i = 0; i < shown; i++)
        put_strip(out, &strips[i], columns, most);
    if (count > 1 && count > STRIPS)
        buf_printf(out, "%6s %zu more processes with fewer bytes\n", "...", count - STRIPS);
    return 0;
}

int io_report_text_put(const struct io_report *report, const struct io_finding *findings, size_t finding_count,
                       struct buf *out)
{
    _cleanup_free_ struct io_merged_file *files = NULL;
    struct io_report_file all = {0};
    size_t count;
    int r = io_merge_files(report, &files, &count);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++)
        io_merge_add(&all, &files[i].sum);
    put_head(out, report, count);
    if (!count) {
        put_nothing(out, &report->coverage);
        return buf_error(out);
    }
    put_totals(out, &all);
    put_failures(out, report, all.errors);
    put_findings(out, report, findings, finding_count);
    put_files(out, files, count, io_file_time_ns(&all));
    if (all.reads.operations + all.writes.operations) {
        put_sizes(out, &all);
        put_patterns(out, &all);
        r = put_heatmap(out, report);
    }
    return r < 0 ? r : buf_error(out);
}
