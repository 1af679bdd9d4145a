/* A report of I/O as a log of Darshan; see darshan.h. The regions are built one by one, compressed with zlib (the
 * reader of uncompressed ones in darshan-util repeats data) and appended; the header, which has their places, is
 * written last. */
#include "export/darshan.h"

#include "export/darshan_posix.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#define CALLS_BY_PATH "<calls by path>"
#define COMMAND_MAX   2048 /* the rest of the job region is for the mounts */
#define SECOND_NS     UINT64_C(1000000000)
#define JOB_TEXT_MAX  (DARSHAN_JOB_REGION_MAX - sizeof(struct darshan_job) - 1)
#define UNKNOWN_MOUNT "\nunknown\t/"
#define WHITE_SPACE   " \t\n\v\f\r"

/* Uncompressed regions. */
struct regions {
    struct buf job, names, posix, heatmap;
};

static void regions_clear(struct regions *r)
{
    buf_clear(&r->job);
    buf_clear(&r->names);
    buf_clear(&r->posix);
    buf_clear(&r->heatmap);
}

static void cut(struct buf *out, size_t size)
{
    out->size = size;
    out->data[size] = '\0';
}

/* Appends a text as valid UTF-8 of at most `max` bytes. */
static void put_text(struct buf *out, const char *text, size_t max)
{
    size_t end = out->size + max;
    buf_put_utf8(out, text);
    if (buf_error(out) || out->size <= end)
        return;
    while (((unsigned char)out->data[end] & 0xC0) == 0x80) /* in the middle of a character */
        end--;
    cut(out, end);
}

static void put_name(struct buf *out, uint64_t id, const char *name)
{
    buf_append(out, &id, sizeof(id));
    put_text(out, name, DARSHAN_NAME_MAX);
    buf_putc(out, '\0');
}

/* A job whose ID is not a number is known by its first process. */
static int64_t job_id(const struct io_report *report)
{
    const char *id = report->job_id;
    char *end;
    errno = 0;
    long long number = strtoll(id, &end, 10);
    if (id[0] >= '0' && id[0] <= '9' && *end == '\0' && errno == 0)
        return number;
    return report->process_count ? report->processes[0].pid : 0;
}

/* One line that has a word: drishti takes the first one. */
static void put_command(const struct io_report *report, struct buf *out)
{
    const char *command = report->executable + strspn(report->executable, WHITE_SPACE);
    const size_t start = out->size;
    put_text(out, command[0] ? command : "<unknown>", COMMAND_MAX);
    for (size_t i = start; i < out->size; i++)
        if (out->data[i] == '\n')
            out->data[i] = ' ';
}

/* Whether the lines of `text` up to `line`, which is the last one, contain it too. */
static bool is_repeated(const char *text, const char *line, size_t size)
{
    for (const char *at = text; (at = strstr(at, line)) && at < line; at++)
        if (at[size] == '\n')
            return true;
    return false;
}

/* Appends a line to the table of mounts, unless it is there or does not fit. Readers separate by white space and reject
 * the whole table when a line has too little: mount points that contain it are left out. */
static void put_mount(struct buf *out, size_t start, const struct io_report_file *file)
{
    const size_t line = out->size;
    if (!file->mount_point[0] || !file->file_system[0] || strpbrk(file->mount_point, WHITE_SPACE) ||
        strpbrk(file->file_system, WHITE_SPACE))
        return;
    buf_putc(out, '\n');
    buf_put_utf8(out, file->file_system);
    buf_putc(out, '\t');
    buf_put_utf8(out, file->mount_point);
    if (!buf_error(out) &&
        (out->size - start > JOB_TEXT_MAX || is_repeated(out->data + start, out->data + line, out->size - line)))
        cut(out, line);
}

/* The table is never empty: readers find the end of the command by its first line. */
static void put_mounts(const struct io_report *report, struct buf *out, size_t start)
{
    const size_t table = out->size;
    for (size_t i = 0; i < report->file_count && !buf_error(out); i++) {
        const struct io_report_file *file = &report->files[i], *before = i ? file - 1 : NULL;
        if (!before || strcmp(before->mount_point, file->mount_point) != 0 ||
            strcmp(before->file_system, file->file_system) != 0)
            put_mount(out, start, file);
    }
    if (out->size == table)
        buf_puts(out, UNKNOWN_MOUNT);
}

static void put_job(const struct io_report *report, struct buf *out)
{
    const uint64_t end_unix_ns = report->start_unix_ns + report->duration_ns;
    struct darshan_job job = {
        .uid = report->uid,
        .start_sec = report->start_unix_ns / SECOND_NS,
        .start_nsec = report->start_unix_ns % SECOND_NS,
        .end_sec = end_unix_ns / SECOND_NS,
        .end_nsec = end_unix_ns % SECOND_NS,
        .processes = report->process_count,
        .job_id = job_id(report),
        .metadata = "lib_ver=sonde " SONDE_VERSION "\n", /* PyDarshan's summary shows it, and needs it */
    };
    buf_append(out, &job, sizeof(job));
    const size_t start = out->size;
    put_command(report, out);
    put_mounts(report, out, start);
    buf_putc(out, '\0');
}

/* By path and inode, then process: the records of a file are neighbours. */
static int compare_files(const void *a, const void *b)
{
    const struct io_report_file *x = *(const struct io_report_file *const *)a,
                                *y = *(const struct io_report_file *const *)b;
    int order = strcmp(x->path, y->path);
    if (order == 0 && x->inode != y->inode)
        order = x->inode < y->inode ? -1 : 1;
    if (order == 0 && x->process != y->process)
        order = x->process < y->process ? -1 : 1;
    return order;
}

static size_t files_of_same(const struct io_report_file *const *files, size_t count)
{
    size_t n = 1;
    while (n < count && files[n]->inode == files[0]->inode && strcmp(files[n]->path, files[0]->path) == 0)
        n++;
    return n;
}

/* Calls by path are no file that is shared: they stay with their ranks. */
static bool is_used_by_all(const struct io_report *report, const struct io_report_file *const *files, size_t count)
{
    if (count < 2 || count != report->process_count || !files[0]->path[0])
        return false;
    for (size_t i = 0; i < count; i++)
        if (files[i]->process != i) /* a process has it twice, on two file systems */
            return false;
    return true;
}

static void put_records_of_file(const struct io_report *report, const struct io_report_file *const *files, size_t count,
                                struct regions *to)
{
    const char *name = files[0]->path[0] ? files[0]->path : CALLS_BY_PATH;
    const uint64_t id = XXH3_64bits_withSeed(name, strlen(name), files[0]->inode);
    struct darshan_posix_record record;
    put_name(&to->names, id, name);
    if (is_used_by_all(report, files, count)) {
        darshan_posix_record_of_all(files, count, id, &record);
        buf_append(&to->posix, &record, sizeof(record));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        darshan_posix_record_of(files[i], id, &record);
        buf_append(&to->posix, &record, sizeof(record));
    }
}

static int put_files(const struct io_report *report, struct regions *to)
{
    if (report->file_count == 0)
        return 0;
    _cleanup_free_ const struct io_report_file **files = calloc(report->file_count, sizeof(*files));
    if (!files)
        return -ENOMEM;
    for (size_t i = 0; i < report->file_count; i++)
        files[i] = &report->files[i];
    qsort(files, report->file_count, sizeof(*files), compare_files);
    for (size_t i = 0, n; i < report->file_count && !buf_error(&to->posix); i += n) {
        n = files_of_same(files + i, report->file_count - i);
        put_records_of_file(report, files + i, n, to);
    }
    return 0;
}

static bool moved_bytes(const struct io_report_cell *cells, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (cells[i].read_bytes || cells[i].write_bytes)
            return true;
    return false;
}

/* Like Darshan, without processes that moved no bytes: readers add them, and fail on a heatmap that is all zeros. */
static void put_heatmap(const struct io_report *report, struct regions *to)
{
    struct darshan_heatmap_record record = {
        .base.id = DARSHAN_HEATMAP_POSIX_ID,
        .interval_seconds = (double)report->interval_ns / SECOND_NS,
        .interval_count = report->interval_count,
    };
    for (size_t p = 0; p < report->process_count && report->interval_count; p++) {
        const struct io_report_cell *cells = report->cells + p * report->interval_count;
        if (!moved_bytes(cells, report->interval_count))
            continue;
        record.base.rank = p;
        buf_append(&to->heatmap, &record, sizeof(record));
        for (size_t i = 0; i < report->interval_count; i++)
            buf_append(&to->heatmap, &cells[i].write_bytes, sizeof(cells[i].write_bytes));
        for (size_t i = 0; i < report->interval_count; i++)
            buf_append(&to->heatmap, &cells[i].read_bytes, sizeof(cells[i].read_bytes));
    }
    if (to->heatmap.size)
        put_name(&to->names, DARSHAN_HEATMAP_POSIX_ID, DARSHAN_HEATMAP_POSIX_NAME);
}

static void put_region(struct buf *out, size_t log, const struct buf *region, struct darshan_region *ret)
{
    const size_t start = out->size;
    if (region->size == 0)
        return;
    buf_zlib(out, region->data, region->size);
    *ret = (struct darshan_region){.offset = start - log, .size = out->size - start};
}

static void put_module(struct buf *out, size_t log, const struct buf *region, unsigned module, uint32_t version,
                       struct darshan_header *header)
{
    put_region(out, log, region, &header->modules[module]);
    if (region->size)
        header->module_versions[module] = version;
}

static void put_log(const struct io_report *report, const struct regions *from, struct buf *out)
{
    struct darshan_header header = {
        .version = DARSHAN_VERSION, .magic = DARSHAN_MAGIC, .compression = DARSHAN_COMPRESSION_ZLIB};
    struct darshan_region job = {0}; /* the header has no place for it: it begins behind the header */
    const size_t log = out->size;
    if (report->lost)
        header.partial_flags = UINT64_C(1) << DARSHAN_MODULE_POSIX | UINT64_C(1) << DARSHAN_MODULE_HEATMAP;
    buf_append(out, &header, sizeof(header));
    put_region(out, log, &from->job, &job);
    put_region(out, log, &from->names, &header.names);
    put_module(out, log, &from->posix, DARSHAN_MODULE_POSIX, DARSHAN_POSIX_VERSION, &header);
    put_module(out, log, &from->heatmap, DARSHAN_MODULE_HEATMAP, DARSHAN_HEATMAP_VERSION, &header);
    if (!buf_error(out))
        memcpy(out->data + log, &header, sizeof(header));
}

static int regions_error(const struct regions *r)
{
    const struct buf *all[] = {&r->job, &r->names, &r->posix, &r->heatmap};
    for (size_t i = 0; i < array_size(all); i++)
        if (buf_error(all[i]))
            return buf_error(all[i]);
    return 0;
}

int darshan_write(const struct io_report *report, struct buf *out)
{
    _cleanup_(regions_clear) struct regions regions = {0};
    put_job(report, &regions.job);
    int r = put_files(report, &regions);
    if (r < 0)
        return r;
    put_heatmap(report, &regions);
    r = regions_error(&regions);
    if (r < 0)
        return r;
    put_log(report, &regions, out);
    return buf_error(out);
}
