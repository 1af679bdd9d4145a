/* darshan.c and darshan_posix.c: the log is split into regions by its header and inflated; tests/e2e/test_darshan.py
 * has Darshan's own readers read it. */
#include "export/darshan.h"
#include "export/darshan_posix.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "io_report_example.h"

struct log {
    struct buf file;
    struct darshan_header header;
    struct buf job, names, posix, heatmap;
};

static void log_clear(struct log *log)
{
    buf_clear(&log->file);
    buf_clear(&log->job);
    buf_clear(&log->names);
    buf_clear(&log->posix);
    buf_clear(&log->heatmap);
}

static void inflate_region(const struct log *log, uint64_t offset, uint64_t size, struct buf *ret)
{
    z_stream z = {.next_in = (unsigned char *)log->file.data + offset, .avail_in = size};
    unsigned char piece[4096];
    int r;
    assert_true(offset <= log->file.size && size <= log->file.size - offset);
    assert_int_equal(inflateInit(&z), Z_OK);
    do {
        z.next_out = piece;
        z.avail_out = sizeof(piece);
        r = inflate(&z, Z_NO_FLUSH);
        assert_true(r == Z_OK || r == Z_STREAM_END);
        buf_append(ret, piece, sizeof(piece) - z.avail_out);
    } while (r != Z_STREAM_END);
    assert_int_equal(z.avail_in, 0);
    inflateEnd(&z);
}

/* Writes the report, and takes it apart. The regions follow each other without a gap. */
static void write_log(const struct io_report *report, struct log *log)
{
    *log = (struct log){0};
    assert_int_equal(darshan_write(report, &log->file), 0);
    assert_true(log->file.size > sizeof(log->header));
    memcpy(&log->header, log->file.data, sizeof(log->header));
    const struct darshan_region regions[] = {log->header.names, log->header.modules[DARSHAN_MODULE_POSIX],
                                             log->header.modules[DARSHAN_MODULE_HEATMAP]};
    struct buf *const to[] = {&log->names, &log->posix, &log->heatmap};
    uint64_t end = log->file.size;
    for (size_t i = array_size(regions); i-- > 0;) {
        if (regions[i].size == 0) {
            assert_int_equal(regions[i].offset, 0);
            continue;
        }
        assert_int_equal(regions[i].offset + regions[i].size, end);
        inflate_region(log, regions[i].offset, regions[i].size, to[i]);
        end = regions[i].offset;
    }
    inflate_region(log, sizeof(log->header), end - sizeof(log->header), &log->job);
}

static const char *job_text(const struct log *log)
{
    return log->job.data + sizeof(struct darshan_job);
}

/* The name of a record; NULL: it has none. `*ret_count`: how many names there are. */
static const char *name_of(const struct log *log, uint64_t id, size_t *ret_count)
{
    const char *found = NULL;
    size_t count = 0;
    for (size_t at = 0; at < log->names.size; count++) {
        uint64_t this;
        memcpy(&this, log->names.data + at, sizeof(this));
        const char *name = log->names.data + at + sizeof(this);
        assert_true(name[0] != '\0'); /* readers abort */
        if (this == id)
            found = name;
        at += sizeof(this) + strlen(name) + 1;
    }
    if (ret_count)
        *ret_count = count;
    return found;
}

static size_t record_count(const struct log *log)
{
    assert_int_equal(log->posix.size % sizeof(struct darshan_posix_record), 0);
    return log->posix.size / sizeof(struct darshan_posix_record);
}

static struct darshan_posix_record record_at(const struct log *log, size_t i)
{
    struct darshan_posix_record record;
    memcpy(&record, log->posix.data + i * sizeof(record), sizeof(record));
    return record;
}

/* The record of a file by a rank; fails unless there is exactly one. */
static struct darshan_posix_record record_of(const struct log *log, const char *name, int64_t rank)
{
    struct darshan_posix_record found = {0};
    int count = 0;
    for (size_t i = 0; i < record_count(log); i++) {
        const struct darshan_posix_record one = record_at(log, i);
        const char *its_name = name_of(log, one.base.id, NULL);
        assert_non_null(its_name);
        if (one.base.rank == rank && strcmp(its_name, name) == 0) {
            found = one;
            count++;
        }
    }
    assert_int_equal(count, 1);
    return found;
}

static void test_header_and_job(void **state)
{
    (void)state;
    static struct io_report_example e;
    io_report_example_fill(&e);
    _cleanup_(log_clear) struct log log;
    write_log(&e.report, &log);
    assert_memory_equal(log.header.version, "3.41\0\0\0", 8);
    assert_int_equal(log.header.magic, 6567223);
    assert_int_equal(log.header.compression, 0);
    assert_int_equal(log.header.partial_flags, 0);
    assert_int_equal(log.header.module_versions[1], 4);
    assert_int_equal(log.header.module_versions[15], 1);
    for (int i = 0; i < DARSHAN_MODULES; i++)
        assert_int_equal(log.header.modules[i].size > 0, i == 1 || i == 15);
    struct darshan_job job;
    memcpy(&job, log.job.data, sizeof(job));
    assert_int_equal(job.uid, 1000);
    assert_int_equal(job.start_sec, 1785585600);
    assert_int_equal(job.start_nsec, 250000000);
    assert_int_equal(job.end_sec, 1785585610);
    assert_int_equal(job.end_nsec, 250000000);
    assert_int_equal(job.processes, 3);
    assert_int_equal(job.job_id, 4711);
    assert_string_equal(job.metadata, "lib_ver=sonde " SONDE_VERSION "\n");
    assert_string_equal(job_text(&log), "/usr/bin/train --epochs 3\nxfs\t/data\next4\t/");
}

static void test_job_without_a_number_has_the_first_pid(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        int64_t expected;
    } cases[] = {
        {"815", 815},         {"", 100},
        {"ssh.service", 100}, {"12.batch", 100},
        {"-5", 100},          {"9223372036854775807", INT64_MAX},
        {" 7", 100},          {"9223372036854775808", 100},
    };
    static struct io_report_example e;
    io_report_example_fill(&e);
    for (size_t i = 0; i < array_size(cases); i++) {
        _cleanup_(log_clear) struct log log;
        struct darshan_job job;
        e.report.job_id = cases[i].id;
        write_log(&e.report, &log);
        memcpy(&job, log.job.data, sizeof(job));
        assert_int_equal(job.job_id, cases[i].expected);
    }
}

static void test_record_of_a_process(void **state)
{
    (void)state;
    static struct io_report_example e;
    io_report_example_fill(&e);
    _cleanup_(log_clear) struct log log;
    write_log(&e.report, &log);
    assert_int_equal(record_count(&log), 7); /* 3 by path, 1 of all, 2 read, 1 own */
    const struct darshan_posix_record r = record_of(&log, "/scratch/input", 1);
    assert_int_equal(r.counters[POSIX_OPENS], 1);
    assert_int_equal(r.counters[POSIX_READS], 8);
    assert_int_equal(r.counters[POSIX_STATS], 1);
    assert_int_equal(r.counters[POSIX_BYTES_READ], 8 << 23);
    assert_int_equal(r.counters[POSIX_MAX_BYTE_READ], (8 << 23) - 1);
    assert_int_equal(r.counters[POSIX_MAX_BYTE_WRITTEN], 0);
    assert_int_equal(r.counters[POSIX_SEQ_READS], 7);
    assert_int_equal(r.counters[POSIX_CONSEC_READS], 7);
    assert_int_equal(r.counters[POSIX_RW_SWITCHES], 1);
    assert_int_equal(r.counters[POSIX_FILE_ALIGNMENT], -1); /* not known */
    assert_int_equal(r.counters[POSIX_SIZE_READ_0_100 + 6], 8);
    assert_int_equal(r.counters[POSIX_ACCESS1_ACCESS], 1 << 23);
    assert_int_equal(r.counters[POSIX_ACCESS1_COUNT], 8);
    assert_int_equal(r.counters[POSIX_SEEKS], -1);
    assert_int_equal(r.counters[POSIX_MMAPS], -1); /* page faults are no calls of mmap(2) */
    assert_int_equal(r.counters[POSIX_FDSYNCS], 0);
    assert_true(r.times[POSIX_F_READ_START_TIMESTAMP] == 0.032);
    assert_true(r.times[POSIX_F_CLOSE_END_TIMESTAMP] == 0.041);
    assert_true(r.times[POSIX_F_WRITE_END_TIMESTAMP] == 0);
    assert_true(r.times[POSIX_F_MAX_READ_TIME] == 0.004);
    assert_int_equal(r.counters[POSIX_SLOWEST_RANK_BYTES], 0); /* only of records that are reduced */
}

static void test_file_of_all_processes_is_reduced(void **state)
{
    (void)state;
    static struct io_report_example e;
    io_report_example_fill(&e);
    _cleanup_(log_clear) struct log log;
    write_log(&e.report, &log);
    const struct darshan_posix_record r = record_of(&log, "/data/shared.bin", -1);
    assert_int_equal(r.counters[POSIX_OPENS], 4);
    assert_int_equal(r.counters[POSIX_WRITES], 6000);
    assert_int_equal(r.counters[POSIX_BYTES_WRITTEN], 6000 * 4096);
    assert_int_equal(r.counters[POSIX_MAX_BYTE_WRITTEN], 2999999);
    assert_int_equal(r.counters[POSIX_FILE_NOT_ALIGNED], 3 + 4 + 5);
    assert_int_equal(r.counters[POSIX_FILE_ALIGNMENT], 4096);
    assert_int_equal(r.counters[POSIX_SEEKS], -1); /* not -3 */
    assert_int_equal(r.counters[POSIX_MEM_NOT_ALIGNED], -1);
    assert_int_equal(r.counters[POSIX_MAX_WRITE_TIME_SIZE], 4098); /* of the slowest one */
    assert_int_equal(r.counters[POSIX_FASTEST_RANK], 0);
    assert_int_equal(r.counters[POSIX_FASTEST_RANK_BYTES], 1000 * 4096);
    assert_int_equal(r.counters[POSIX_SLOWEST_RANK], 2);
    assert_int_equal(r.counters[POSIX_SLOWEST_RANK_BYTES], 3000 * 4096);
    assert_true(r.times[POSIX_F_OPEN_START_TIMESTAMP] == 0.010);
    assert_true(r.times[POSIX_F_OPEN_END_TIMESTAMP] == 0.022);
    assert_true(r.times[POSIX_F_WRITE_START_TIMESTAMP] == 0.098); /* of the last rank */
    assert_true(r.times[POSIX_F_READ_START_TIMESTAMP] == 0);
    assert_true(r.times[POSIX_F_MAX_WRITE_TIME] == 0.007);
    assert_true(r.times[POSIX_F_WRITE_TIME] > 7.4999 && r.times[POSIX_F_WRITE_TIME] < 7.5001); /* with the syncs */
    assert_true(r.times[POSIX_F_META_TIME] > 0.0059 && r.times[POSIX_F_META_TIME] < 0.0061);   /* without */
    const double variance = 2.0 / 3; /* of 1.502, 2.502 and 3.502 seconds */
    assert_true(r.times[POSIX_F_VARIANCE_RANK_TIME] > variance - 1e-9 &&
                r.times[POSIX_F_VARIANCE_RANK_TIME] < variance + 1e-9);
    assert_true(r.times[POSIX_F_VARIANCE_RANK_BYTES] > variance * 4096e3 * 4096e3 - 1 &&
                r.times[POSIX_F_VARIANCE_RANK_BYTES] < variance * 4096e3 * 4096e3 + 1);
}

static void test_common_values_of_ranks_are_merged(void **state)
{
    (void)state;
    struct io_report_file files[2] = {
        {.process = 0, .strides = {{.value = 10, .count = 5}, {20, 4}, {30, 3}, {40, 2}}},
        {.process = 1, .strides = {{.value = 50, .count = 5}, {40, 4}, {60, 1}}},
    };
    const struct io_report_file *all[] = {&files[0], &files[1]};
    struct darshan_posix_record r;
    darshan_posix_record_of_all(all, 2, 1, &r);
    static const int64_t values[] = {40, 10, 50, 20}, counts[] = {6, 5, 5, 4};
    assert_memory_equal(&r.counters[POSIX_STRIDE1_STRIDE], values, sizeof(values));
    assert_memory_equal(&r.counters[POSIX_STRIDE1_COUNT], counts, sizeof(counts));
    all[0] = &files[1];
    all[1] = &files[0];
    darshan_posix_record_of_all(all, 2, 1, &r);
    assert_memory_equal(&r.counters[POSIX_STRIDE1_STRIDE], values, sizeof(values));
    for (int i = 0; i < 4; i++)
        assert_int_equal(r.counters[POSIX_ACCESS1_COUNT + i] | r.counters[POSIX_ACCESS1_ACCESS + i], 0);
}

/* A file that not all processes use stays a record for each rank. */
static void test_other_files_are_not_reduced(void **state)
{
    (void)state;
    static struct io_report_example e;
    io_report_example_fill(&e);
    _cleanup_(log_clear) struct log log;
    write_log(&e.report, &log);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(record_of(&log, "<calls by path>", rank).counters[POSIX_STATS], 5);
    assert_int_equal(record_of(&log, "/scratch/input", 0).base.id, record_of(&log, "/scratch/input", 1).base.id);

    struct io_report_file files[] = {
        {.path = "/a", .mount_point = "/", .file_system = "xfs", .inode = 1, .process = 0, .opens = 1},
        {.path = "/a", .mount_point = "/", .file_system = "xfs", .inode = 2, .process = 1, .opens = 2},
        {.path = "/b", .mount_point = "/", .file_system = "xfs", .inode = 3, .process = 1, .opens = 3},
        {.path = "/b", .mount_point = "/", .file_system = "xfs", .inode = 3, .process = 1, .opens = 4},
    };
    e.report.files = files;
    e.report.file_count = 4;
    e.report.process_count = 2;
    log_clear(&log);
    write_log(&e.report, &log);
    size_t names;
    name_of(&log, 0, &names);
    assert_int_equal(names, 3 + 1); /* two of /a; of /b; of the heatmap */
    assert_int_equal(record_count(&log), 4);
    assert_int_equal(record_of(&log, "/a", 0).counters[POSIX_OPENS], 1);
    assert_int_equal(record_of(&log, "/a", 1).counters[POSIX_OPENS], 2);

    e.report.process_count = 1; /* nothing is shared by one */
    e.report.file_count = 1;
    log_clear(&log);
    write_log(&e.report, &log);
    assert_int_equal(record_of(&log, "/a", 0).counters[POSIX_OPENS], 1);
}

/* A file that is replaced, or the same path in two containers. */
static void test_files_of_one_path_differ_by_inode(void **state)
{
    (void)state;
    static struct io_report_example e;
    io_report_example_fill(&e);
    struct io_report_file files[] = {
        {.path = "/a", .mount_point = "/", .file_system = "xfs", .inode = 1, .process = 0, .opens = 1},
        {.path = "/a", .mount_point = "/", .file_system = "xfs", .inode = 2, .process = 0, .opens = 10},
        {.path = "/a", .mount_point = "/", .file_system = "xfs", .inode = 1, .process = 1, .opens = 1},
        {.path = "/a", .mount_point = "/", .file_system = "xfs", .inode = 2, .process = 1, .opens = 10},
    };
    e.report.files = files;
    e.report.file_count = 4;
    e.report.process_count = 2;
    _cleanup_(log_clear) struct log log;
    write_log(&e.report, &log);
    assert_int_equal(record_count(&log), 2);
    const struct darshan_posix_record first = record_at(&log, 0), second = record_at(&log, 1);
    assert_int_equal(first.counters[POSIX_OPENS], 2);
    assert_int_equal(second.counters[POSIX_OPENS], 20);
    assert_true(first.base.id != second.base.id);
    assert_string_equal(name_of(&log, first.base.id, NULL), "/a");
    assert_string_equal(name_of(&log, second.base.id, NULL), "/a");
}

static void test_heatmap(void **state)
{
    (void)state;
    static struct io_report_example e;
    io_report_example_fill(&e);
    _cleanup_(log_clear) struct log log;
    write_log(&e.report, &log);
    const size_t bins = EXAMPLE_INTERVALS * sizeof(int64_t), size = sizeof(struct darshan_heatmap_record) + 2 * bins;
    assert_int_equal(log.heatmap.size, 2 * size); /* not of the process without bytes */
    for (size_t p = 0; p < 2; p++) {
        struct darshan_heatmap_record record;
        int64_t written[EXAMPLE_INTERVALS], read[EXAMPLE_INTERVALS];
        const char *at = log.heatmap.data + p * size;
        memcpy(&record, at, sizeof(record));
        memcpy(written, at + sizeof(record), bins);
        memcpy(read, at + sizeof(record) + bins, bins);
        assert_true(record.base.id == UINT64_C(16592106915301738621));
        assert_int_equal(record.base.rank, p);
        assert_true(record.interval_seconds == 0.5);
        assert_int_equal(record.interval_count, EXAMPLE_INTERVALS);
        for (int64_t i = 0; i < EXAMPLE_INTERVALS; i++) {
            assert_int_equal(read[i], i);
            assert_int_equal(written[i], 1000 * (int64_t)p + i * i);
        }
    }
    assert_string_equal(name_of(&log, UINT64_C(16592106915301738621), NULL), "heatmap:POSIX");

    memset(e.cells, 0, sizeof(e.cells));
    log_clear(&log);
    write_log(&e.report, &log);
    assert_int_equal(log.header.modules[DARSHAN_MODULE_HEATMAP].size, 0);
    assert_null(name_of(&log, UINT64_C(16592106915301738621), NULL));
}

static void test_report_without_files(void **state)
{
    (void)state;
    const struct io_report none = {
        .title = "process 1", .executable = " \n", .job_id = "", .start_unix_ns = SECOND, .duration_ns = SECOND};
    _cleanup_(log_clear) struct log log;
    write_log(&none, &log);
    assert_int_equal(log.header.names.size, 0);
    assert_int_equal(log.header.modules[DARSHAN_MODULE_POSIX].size, 0);
    assert_int_equal(log.header.module_versions[DARSHAN_MODULE_POSIX], 0);
    assert_string_equal(job_text(&log), "<unknown>\nunknown\t/");
}

static void test_losses_set_the_partial_flags(void **state)
{
    (void)state;
    static struct io_report_example e;
    io_report_example_fill(&e);
    e.report.lost = 1;
    _cleanup_(log_clear) struct log log;
    write_log(&e.report, &log);
    assert_int_equal(log.header.partial_flags, 1 << 1 | 1 << 15);
}

static void test_names_are_bounded_utf8(void **state)
{
    (void)state;
    static char deep[20001];
    memset(deep, 'd', sizeof(deep) - 1);
    deep[0] = '/';
    memcpy(deep + 4093, "\xe2\x82\xac", 3); /* the limit is inside this character */
    struct io_report_file files[] = {
        {.path = "/\xff\xfe", .mount_point = "/", .file_system = "xfs"},
        {.path = "/\xfe\xff", .mount_point = "/", .file_system = "xfs"},
        {.path = "/line\nfeed\ttab", .mount_point = "/", .file_system = "xfs"},
        {.path = deep, .mount_point = "/", .file_system = "xfs"},
    };
    const struct io_report_process process = {.pid = 1, .command = "x"};
    const struct io_report report = {.executable = "run \xff\nnow",
                                     .job_id = "",
                                     .duration_ns = SECOND,
                                     .processes = &process,
                                     .process_count = 1,
                                     .files = files,
                                     .file_count = array_size(files)};
    _cleanup_(log_clear) struct log log;
    write_log(&report, &log);
    assert_int_equal(record_count(&log), 4);
    record_of(&log, "/line\nfeed\ttab", 0);
    deep[4093] = '\0';
    record_of(&log, deep, 0);
    size_t equal = 0;
    for (size_t i = 0; i < 4; i++) /* different files, although the names look alike */
        equal += strcmp(name_of(&log, record_at(&log, i).base.id, NULL), "/\xef\xbf\xbd\xef\xbf\xbd") == 0;
    assert_int_equal(equal, 2);
    assert_true(record_at(&log, 2).base.id != record_at(&log, 3).base.id); /* sorted: those two are the last ones */
    assert_string_equal(job_text(&log), "run \xef\xbf\xbd now\nxfs\t/");
}

/* Readers take 4096 bytes, and reject the table of mounts if a line has fewer than two words. */
static void test_table_of_mounts(void **state)
{
    (void)state;
    static char command[5001], far[1001], mounts[300][32];
    static struct io_report_file files[303];
    memset(command, 'c', sizeof(command) - 1);
    memset(far, 'f', sizeof(far) - 1);
    files[0] = (struct io_report_file){.path = "/1", .mount_point = "/with space", .file_system = "xfs"};
    files[1] = (struct io_report_file){.path = "/2", .mount_point = far, .file_system = "xfs"};
    files[2] = (struct io_report_file){.path = "/3", .mount_point = "/mnt/0", .file_system = "xfs"};
    for (size_t i = 0; i < array_size(mounts); i++) {
        snprintf(mounts[i], sizeof(mounts[i]), "/mnt/%zu", i % 150);
        files[i + 3] =
            (struct io_report_file){.path = "/4", .mount_point = mounts[i], .file_system = "xfs", .inode = i};
    }
    const struct io_report_process process = {.pid = 1, .command = "x"};
    const struct io_report report = {.executable = command,
                                     .job_id = "",
                                     .duration_ns = SECOND,
                                     .processes = &process,
                                     .process_count = 1,
                                     .files = files,
                                     .file_count = array_size(files)};
    _cleanup_(log_clear) struct log log;
    write_log(&report, &log);
    assert_true(log.job.size <= 4096 && log.job.size > 4096 - 16);
    assert_int_equal(log.job.data[log.job.size - 1], '\0');
    const char *table = strchr(job_text(&log), '\n');
    assert_int_equal(table - job_text(&log), 2048);
    assert_memory_equal(table, "\nxfs\t/mnt/0\nxfs\t/mnt/1\n", 23);
    assert_null(strstr(table, "space"));
    assert_null(strstr(strstr(table, "/mnt/1\n") + 1, "/mnt/1\n")); /* each once */
}

static void test_full_buffer_is_an_error(void **state)
{
    (void)state;
    static struct io_report_example e;
    io_report_example_fill(&e);
    _cleanup_buf_ struct buf whole = {0};
    assert_int_equal(darshan_write(&e.report, &whole), 0);
    for (size_t max = 1; max < whole.size; max += 97) {
        _cleanup_buf_ struct buf out = {.max_bytes = max};
        assert_int_equal(darshan_write(&e.report, &out), -EFBIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_and_job),
        cmocka_unit_test(test_job_without_a_number_has_the_first_pid),
        cmocka_unit_test(test_record_of_a_process),
        cmocka_unit_test(test_file_of_all_processes_is_reduced),
        cmocka_unit_test(test_common_values_of_ranks_are_merged),
        cmocka_unit_test(test_other_files_are_not_reduced),
        cmocka_unit_test(test_files_of_one_path_differ_by_inode),
        cmocka_unit_test(test_heatmap),
        cmocka_unit_test(test_report_without_files),
        cmocka_unit_test(test_losses_set_the_partial_flags),
        cmocka_unit_test(test_names_are_bounded_utf8),
        cmocka_unit_test(test_table_of_mounts),
        cmocka_unit_test(test_full_buffer_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
