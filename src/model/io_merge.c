/* Sums over the files of an I/O report; see io_merge.h. */
#include "model/io_merge.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

const uint64_t io_size_bounds[IO_REPORT_SIZES - 1] = {100,     KIB,      10 * KIB,  100 * KIB, MIB,
                                                      4 * MIB, 10 * MIB, 100 * MIB, 1024 * MIB};

static void add_time(struct io_report_time *sum, const struct io_report_time *t)
{
    if (t->last_ns == 0)
        return; /* it did not happen */
    if (sum->last_ns == 0 || t->first_ns < sum->first_ns)
        sum->first_ns = t->first_ns;
    if (t->last_ns > sum->last_ns)
        sum->last_ns = t->last_ns;
    sum->ns += t->ns;
}

static void add_accesses(struct io_report_accesses *sum, const struct io_report_accesses *a)
{
    sum->operations += a->operations;
    sum->bytes += a->bytes;
    sum->located += a->located;
    sum->followed += a->followed;
    sum->sequential += a->sequential;
    sum->consecutive += a->consecutive;
    sum->unaligned += a->unaligned;
    if (a->end_offset > sum->end_offset)
        sum->end_offset = a->end_offset;
    for (size_t i = 0; i < IO_REPORT_SIZES; i++)
        sum->sizes[i] += a->sizes[i];
    if (a->slowest_ns > sum->slowest_ns) {
        sum->slowest_ns = a->slowest_ns;
        sum->slowest_bytes = a->slowest_bytes;
    }
    add_time(&sum->time, &a->time);
}

static int compare_common(const void *left, const void *right)
{
    const struct io_report_common *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

static void add_common(struct io_report_common sum[IO_REPORT_COMMON],
                       const struct io_report_common more[IO_REPORT_COMMON])
{
    struct io_report_common all[2 * IO_REPORT_COMMON] = {0};
    size_t count = IO_REPORT_COMMON;
    memcpy(all, sum, IO_REPORT_COMMON * sizeof(*all));
    for (size_t i = 0; i < IO_REPORT_COMMON; i++) {
        size_t at = 0;
        while (at < count && (all[at].value != more[i].value || !all[at].count))
            at++;
        all[at].value = more[i].value;
        all[at].count += more[i].count;
        count += at == count;
    }
    qsort(all, count, sizeof(*all), compare_common);
    memcpy(sum, all, IO_REPORT_COMMON * sizeof(*all));
}

void io_merge_add(struct io_report_file *sum, const struct io_report_file *file)
{
    add_accesses(&sum->reads, &file->reads);
    add_accesses(&sum->writes, &file->writes);
    sum->switches += file->switches;
    sum->opens += file->opens;
    sum->creates += file->creates;
    sum->closes += file->closes;
    sum->stats += file->stats;
    sum->syncs += file->syncs;
    sum->truncates += file->truncates;
    sum->lists += file->lists;
    sum->others += file->others;
    sum->maps += file->maps;
    sum->mapped_bytes += file->mapped_bytes;
    sum->errors += file->errors;
    sum->direct += file->direct;
    add_time(&sum->open, &file->open);
    add_time(&sum->close, &file->close);
    add_time(&sum->sync, &file->sync);
    add_time(&sum->metadata, &file->metadata);
    add_common(sum->sizes, file->sizes);
    add_common(sum->strides, file->strides);
}

uint64_t io_file_time_ns(const struct io_report_file *file)
{
    return file->reads.time.ns + file->writes.time.ns + file->metadata.ns;
}

uint64_t io_file_metadata_operations(const struct io_report_file *file)
{
    return file->opens + file->creates + file->closes + file->stats + file->syncs + file->truncates + file->lists +
           file->others;
}

static int compare_names(const struct io_report_file *a, const struct io_report_file *b)
{
    const int r = strcmp(a->path, b->path);
    return r ? r : strcmp(a->mount_point, b->mount_point);
}

static int compare_pointers(const void *left, const void *right)
{
    const struct io_report_file *const *a = left, *const *b = right;
    const int r = compare_names(*a, *b);
    return r ? r : (*a > *b) - (*a < *b);
}

static int compare_time(const void *left, const void *right)
{
    const struct io_merged_file *a = left, *b = right;
    const uint64_t x = io_file_time_ns(&a->sum), y = io_file_time_ns(&b->sum);
    return x != y ? (x > y ? -1 : 1) : compare_names(&a->sum, &b->sum);
}

/* The sum of files of one name; entries of one process are neighbours. */
static void merge_files_of_name(const struct io_report_file *const *files, size_t count, struct io_merged_file *ret)
{
    const struct io_report_file *worst = files[0];
    *ret = (struct io_merged_file){0};
    for (size_t i = 0; i < count; i++) {
        io_merge_add(&ret->sum, files[i]);
        ret->process_count += i == 0 || files[i]->process != files[i - 1]->process;
        if (io_file_time_ns(files[i]) > io_file_time_ns(worst))
            worst = files[i];
    }
    ret->sum.path = worst->path;
    ret->sum.mount_point = worst->mount_point;
    ret->sum.file_system = worst->file_system;
    ret->sum.inode = worst->inode;
    ret->sum.process = worst->process;
    ret->sum.block_bytes = worst->block_bytes;
}

bool io_files_have_one_name(const struct io_report_file *a, const struct io_report_file *b)
{
    return compare_names(a, b) == 0;
}

int io_files_by_name(const struct io_report *report, const struct io_report_file ***ret_files)
{
    const struct io_report_file **files = calloc(report->file_count + 1, sizeof(*files));
    if (!files)
        return -ENOMEM;
    for (size_t i = 0; i < report->file_count; i++)
        files[i] = &report->files[i];
    qsort(files, report->file_count, sizeof(*files), compare_pointers);
    *ret_files = files;
    return 0;
}

int io_merge_files(const struct io_report *report, struct io_merged_file **ret_files, size_t *ret_count)
{
    const size_t all = report->file_count;
    _cleanup_free_ const struct io_report_file **by_name = NULL;
    _cleanup_free_ struct io_merged_file *files = calloc(all + 1, sizeof(*files));
    size_t count = 0;
    if (!files || io_files_by_name(report, &by_name) < 0)
        return -ENOMEM;
    for (size_t first = 0, end; first < all; first = end) {
        for (end = first + 1; end < all && io_files_have_one_name(by_name[first], by_name[end]); end++)
            ;
        merge_files_of_name(&by_name[first], end - first, &files[count++]);
    }
    qsort(files, count, sizeof(*files), compare_time);
    *ret_files = take_ptr(files);
    *ret_count = count;
    return 0;
}
