/* Records of Darshan's POSIX module; see darshan_posix.h. The meaning of each counter is that of Darshan's runtime
 * library, which reports of other jobs are compared with. Two are worth noting: an operation that follows the one
 * before directly is sequential as well as consecutive, and the time of a sync is time of writing. */
#include "export/darshan_posix.h"

#include "base/cleanup.h"

#include <stdbool.h>
#include <string.h>

#define SECONDS(ns) ((double)(ns) / 1e9)
#define COMMON      IO_REPORT_COMMON

_Static_assert(POSIX_SIZE_READ_1G_PLUS - POSIX_SIZE_READ_0_100 + 1 == IO_REPORT_SIZES, "bins of the report");
_Static_assert(POSIX_ACCESS4_ACCESS - POSIX_ACCESS1_ACCESS + 1 == COMMON, "common sizes of the report");

static const enum darshan_posix_counter not_observed[] = {
    POSIX_FILENOS,        POSIX_DUPS,         POSIX_SEEKS, POSIX_MMAPS,           POSIX_RENAME_SOURCES,
    POSIX_RENAME_TARGETS, POSIX_RENAMED_FROM, POSIX_MODE,  POSIX_MEM_NOT_ALIGNED, POSIX_MEM_ALIGNMENT,
};

static uint64_t less_or_zero(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static void set_accesses(const struct io_report_file *file, int64_t *counters)
{
    const struct io_report_accesses *r = &file->reads, *w = &file->writes;
    counters[POSIX_READS] = r->operations;
    counters[POSIX_WRITES] = w->operations;
    counters[POSIX_BYTES_READ] = r->bytes;
    counters[POSIX_BYTES_WRITTEN] = w->bytes;
    counters[POSIX_MAX_BYTE_READ] = less_or_zero(r->end_offset, 1);
    counters[POSIX_MAX_BYTE_WRITTEN] = less_or_zero(w->end_offset, 1);
    counters[POSIX_CONSEC_READS] = r->consecutive;
    counters[POSIX_CONSEC_WRITES] = w->consecutive;
    counters[POSIX_SEQ_READS] = r->sequential;
    counters[POSIX_SEQ_WRITES] = w->sequential;
    counters[POSIX_RW_SWITCHES] = file->switches;
    counters[POSIX_FILE_NOT_ALIGNED] = r->unaligned + w->unaligned;
    counters[POSIX_FILE_ALIGNMENT] = file->block_bytes ? (int64_t)file->block_bytes : DARSHAN_NOT_AVAILABLE;
    counters[POSIX_MAX_READ_TIME_SIZE] = r->slowest_bytes;
    counters[POSIX_MAX_WRITE_TIME_SIZE] = w->slowest_bytes;
    for (int i = 0; i < IO_REPORT_SIZES; i++) {
        counters[POSIX_SIZE_READ_0_100 + i] = r->sizes[i];
        counters[POSIX_SIZE_WRITE_0_100 + i] = w->sizes[i];
    }
}

static void set_common(const struct io_report_common *common, int64_t *values, int64_t *counts)
{
    for (int i = 0; i < COMMON && common[i].count; i++) {
        values[i] = common[i].value;
        counts[i] = common[i].count;
    }
}

static void set_counters(const struct io_report_file *file, int64_t *counters)
{
    for (size_t i = 0; i < array_size(not_observed); i++)
        counters[not_observed[i]] = DARSHAN_NOT_AVAILABLE;
    counters[POSIX_OPENS] = file->opens + file->creates;
    counters[POSIX_STATS] = file->stats;
    counters[POSIX_FSYNCS] = file->syncs; /* includes fdatasync(2): POSIX_FDSYNCS is 0 */
    set_accesses(file, counters);
    set_common(file->strides, &counters[POSIX_STRIDE1_STRIDE], &counters[POSIX_STRIDE1_COUNT]);
    set_common(file->sizes, &counters[POSIX_ACCESS1_ACCESS], &counters[POSIX_ACCESS1_COUNT]);
}

static void set_times(const struct io_report_file *file, double *times)
{
    times[POSIX_F_OPEN_START_TIMESTAMP] = SECONDS(file->open.first_ns);
    times[POSIX_F_READ_START_TIMESTAMP] = SECONDS(file->reads.time.first_ns);
    times[POSIX_F_WRITE_START_TIMESTAMP] = SECONDS(file->writes.time.first_ns);
    times[POSIX_F_CLOSE_START_TIMESTAMP] = SECONDS(file->close.first_ns);
    times[POSIX_F_OPEN_END_TIMESTAMP] = SECONDS(file->open.last_ns);
    times[POSIX_F_READ_END_TIMESTAMP] = SECONDS(file->reads.time.last_ns);
    times[POSIX_F_WRITE_END_TIMESTAMP] = SECONDS(file->writes.time.last_ns);
    times[POSIX_F_CLOSE_END_TIMESTAMP] = SECONDS(file->close.last_ns);
    times[POSIX_F_READ_TIME] = SECONDS(file->reads.time.ns);
    times[POSIX_F_WRITE_TIME] = SECONDS(file->writes.time.ns + file->sync.ns);
    times[POSIX_F_META_TIME] = SECONDS(less_or_zero(file->metadata.ns, file->sync.ns));
    times[POSIX_F_MAX_READ_TIME] = SECONDS(file->reads.slowest_ns);
    times[POSIX_F_MAX_WRITE_TIME] = SECONDS(file->writes.slowest_ns);
}

void darshan_posix_record_of(const struct io_report_file *file, uint64_t id, struct darshan_posix_record *ret)
{
    *ret = (struct darshan_posix_record){.base = {.id = id, .rank = file->process}};
    set_counters(file, ret->counters);
    set_times(file, ret->times);
}

static double total_time(const struct darshan_posix_record *record)
{
    return record->times[POSIX_F_READ_TIME] + record->times[POSIX_F_WRITE_TIME] + record->times[POSIX_F_META_TIME];
}

static int64_t total_bytes(const struct darshan_posix_record *record)
{
    return record->counters[POSIX_BYTES_READ] + record->counters[POSIX_BYTES_WRITTEN];
}

/* Adds `count` occurrences of a value to a list of `n` distinct ones, ordered by count and then by value: which of them
 * are kept does not depend on the order of the ranks. Returns the new length. */
static int add_common(struct io_report_common *list, int n, struct io_report_common more)
{
    int at = 0;
    while (at < n && list[at].value != more.value)
        at++;
    if (at < n)
        more.count += list[at].count;
    else
        n++;
    for (; at > 0; at--) {
        const struct io_report_common *before = &list[at - 1];
        if (before->count > more.count || (before->count == more.count && before->value < more.value))
            break;
        list[at] = *before;
    }
    list[at] = more;
    return n;
}

/* Adds the most frequent values of another rank, and keeps the most frequent ones of both. */
static void merge_common(int64_t *values, int64_t *counts, const int64_t *more_values, const int64_t *more_counts)
{
    struct io_report_common list[2 * COMMON] = {0};
    int n = 0;
    for (int i = 0; i < COMMON; i++) {
        if (counts[i] > 0)
            n = add_common(list, n, (struct io_report_common){values[i], counts[i]});
        if (more_counts[i] > 0)
            n = add_common(list, n, (struct io_report_common){more_values[i], more_counts[i]});
    }
    for (int i = 0; i < COMMON; i++) {
        values[i] = list[i].value;
        counts[i] = list[i].count;
    }
}

static void sum_counters(int64_t *to, const int64_t *from, int first, int last)
{
    for (int i = first; i <= last; i++)
        to[i] = to[i] == DARSHAN_NOT_AVAILABLE || from[i] == DARSHAN_NOT_AVAILABLE ? DARSHAN_NOT_AVAILABLE
                                                                                   : to[i] + from[i];
}

static void max_counter(int64_t *to, const int64_t *from, int counter)
{
    if (from[counter] > to[counter])
        to[counter] = from[counter];
}

/* POSIX_RENAMED_FROM, POSIX_MODE and the alignments are of the first rank, as Darshan has them of one. */
static void merge_counters(int64_t *to, const int64_t *from)
{
    sum_counters(to, from, POSIX_OPENS, POSIX_RENAME_TARGETS);
    sum_counters(to, from, POSIX_BYTES_READ, POSIX_BYTES_WRITTEN);
    max_counter(to, from, POSIX_MAX_BYTE_READ);
    max_counter(to, from, POSIX_MAX_BYTE_WRITTEN);
    sum_counters(to, from, POSIX_CONSEC_READS, POSIX_MEM_NOT_ALIGNED);
    sum_counters(to, from, POSIX_FILE_NOT_ALIGNED, POSIX_FILE_NOT_ALIGNED);
    sum_counters(to, from, POSIX_SIZE_READ_0_100, POSIX_SIZE_WRITE_1G_PLUS);
    merge_common(&to[POSIX_STRIDE1_STRIDE], &to[POSIX_STRIDE1_COUNT], &from[POSIX_STRIDE1_STRIDE],
                 &from[POSIX_STRIDE1_COUNT]);
    merge_common(&to[POSIX_ACCESS1_ACCESS], &to[POSIX_ACCESS1_COUNT], &from[POSIX_ACCESS1_ACCESS],
                 &from[POSIX_ACCESS1_COUNT]);
}

static void merge_slowest_operation(struct darshan_posix_record *to, const struct darshan_posix_record *from,
                                    enum darshan_posix_time time, enum darshan_posix_counter size)
{
    if (from->times[time] > to->times[time]) {
        to->times[time] = from->times[time];
        to->counters[size] = from->counters[size];
    }
}

static void merge_times(double *to, const double *from)
{
    for (int i = POSIX_F_OPEN_START_TIMESTAMP; i <= POSIX_F_CLOSE_START_TIMESTAMP; i++)
        if (to[i] == 0 || (from[i] > 0 && from[i] < to[i]))
            to[i] = from[i];
    for (int i = POSIX_F_OPEN_END_TIMESTAMP; i <= POSIX_F_CLOSE_END_TIMESTAMP; i++)
        if (from[i] > to[i])
            to[i] = from[i];
    for (int i = POSIX_F_READ_TIME; i <= POSIX_F_META_TIME; i++)
        to[i] += from[i];
}

static void merge_fastest_and_slowest_rank(struct darshan_posix_record *to, const struct darshan_posix_record *from,
                                           bool first)
{
    const double time = total_time(from);
    if (first || time < to->times[POSIX_F_FASTEST_RANK_TIME]) {
        to->counters[POSIX_FASTEST_RANK] = from->base.rank;
        to->counters[POSIX_FASTEST_RANK_BYTES] = total_bytes(from);
        to->times[POSIX_F_FASTEST_RANK_TIME] = time;
    }
    if (first || time > to->times[POSIX_F_SLOWEST_RANK_TIME]) {
        to->counters[POSIX_SLOWEST_RANK] = from->base.rank;
        to->counters[POSIX_SLOWEST_RANK_BYTES] = total_bytes(from);
        to->times[POSIX_F_SLOWEST_RANK_TIME] = time;
    }
}

/* Welford's algorithm: the variance of values in one pass. */
struct variance {
    double n, mean, squares;
};

static void variance_add(struct variance *v, double value)
{
    const double delta = value - v->mean;
    v->n++;
    v->mean += delta / v->n;
    v->squares += delta * (value - v->mean);
}

void darshan_posix_record_of_all(const struct io_report_file *const *files, size_t count, uint64_t id,
                                 struct darshan_posix_record *ret)
{
    struct variance time = {0}, bytes = {0};
    for (size_t i = 0; i < count; i++) {
        struct darshan_posix_record one;
        darshan_posix_record_of(files[i], id, &one);
        if (i == 0) {
            *ret = one;
        } else {
            merge_counters(ret->counters, one.counters);
            merge_slowest_operation(ret, &one, POSIX_F_MAX_READ_TIME, POSIX_MAX_READ_TIME_SIZE);
            merge_slowest_operation(ret, &one, POSIX_F_MAX_WRITE_TIME, POSIX_MAX_WRITE_TIME_SIZE);
            merge_times(ret->times, one.times);
        }
        merge_fastest_and_slowest_rank(ret, &one, i == 0);
        variance_add(&time, total_time(&one));
        variance_add(&bytes, (double)total_bytes(&one));
    }
    ret->base.rank = DARSHAN_SHARED_RANK;
    ret->times[POSIX_F_VARIANCE_RANK_TIME] = time.squares / time.n;
    ret->times[POSIX_F_VARIANCE_RANK_BYTES] = bytes.squares / bytes.n;
}
