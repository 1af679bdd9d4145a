/* Recordings: written records are read back, and errors give the position of the damage. */
#include "signals/signals.h"
#include "sources/events/record_file.h"

#include "probes/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define RECORDS 5000

static char path[] = "/tmp/sonde-wire-XXXXXX";

static struct batch *new_batch(void)
{
    struct batch *b = NULL;

    assert_int_equal(batch_new(4 * RECORD_MAX_BYTES, signals_check_record, &b), 0);
    return b;
}

static void fill(struct batch *b, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        struct process_fork *f = batch_reserve(b, sizeof(*f));

        assert_non_null(f);
        f->h.kind = RECORD_PROCESS_FORK;
        f->h.time_ns = i;
        f->h.pid = i;
        f->parent_pid = i / 2;
    }
}

static void write_recording(void)
{
    struct record_writer *w = NULL;
    struct batch *b = new_batch();

    assert_int_equal(record_writer_open(path, &w), 0);
    for (uint32_t i = 0; i < RECORDS; i += 1000) {
        batch_clear(b);
        fill(b, i, 1000);
        assert_int_equal(record_writer_add(w, b), 0);
    }
    record_writer_free(w);
    batch_free(b);
}

/* Reads to the end; returns it, and how many records were read in order. */
static int read_recording(uint32_t *ret_count, uint64_t *ret_position, char *ret_error, size_t size)
{
    struct record_reader *r = NULL;
    struct batch *b = new_batch();
    uint32_t count = 0;
    int end;

    assert_int_equal(record_reader_open(path, &r), 0);
    while ((end = record_reader_next(r, b)) == 0) {
        for (size_t i = 0; i < batch_count(b); i++, count++) {
            const struct process_fork *f = (const struct process_fork *)batch_get(b, i);

            assert_int_equal(f->h.pid, count);
            assert_int_equal(f->parent_pid, count / 2);
        }
        batch_clear(b);
    }
    assert_int_equal(record_reader_next(r, b), end); /* the end is sticky */
    *ret_position = record_reader_position(r);
    snprintf(ret_error, size, "%s", record_reader_error(r));
    *ret_count = count;
    record_reader_free(r);
    batch_free(b);
    return end;
}

static void test_records_round_trip(void **state)
{
    char error[128];
    uint64_t position;
    uint32_t count;
    struct stat st;

    (void)state;
    write_recording();
    assert_int_equal(read_recording(&count, &position, error, sizeof(error)), -ENODATA);
    assert_int_equal(count, RECORDS);
    assert_string_equal(error, "");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(position, st.st_size);
}

static void test_truncated_recording(void **state)
{
    char error[128];
    uint64_t position;
    uint32_t count;

    (void)state;
    for (long cut = 1; cut < (long)sizeof(struct process_fork); cut++) {
        write_recording();
        assert_int_equal(truncate(path, 16 + RECORDS * (long)sizeof(struct process_fork) - cut), 0);
        assert_int_equal(read_recording(&count, &position, error, sizeof(error)), -EBADMSG);
        assert_int_equal(count, RECORDS - 1);
        assert_int_equal(position, 16 + (RECORDS - 1) * sizeof(struct process_fork));
        assert_non_null(strstr(error, "cut short"));
    }
}

static void overwrite(long at, const void *data, size_t size)
{
    FILE *f = fopen(path, "r+e");

    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fwrite(data, size, 1, f), 1);
    fclose(f);
}

static void test_damaged_records(void **state)
{
    static const uint32_t sizes[] = {0, 8, 23, 28, 31, RECORD_MAX_BYTES + 8, UINT32_MAX, 40};
    const long at = 16 + 7 * (long)sizeof(struct process_fork);
    char error[128];
    uint64_t position;
    uint32_t count;
    uint16_t kind = 4711;

    (void)state;
    for (size_t i = 0; i < array_size(sizes); i++) {
        write_recording();
        overwrite(at, &sizes[i], sizeof(sizes[i]));
        assert_int_equal(read_recording(&count, &position, error, sizeof(error)), -EBADMSG);
        assert_int_equal(count, 7);
        assert_int_equal(position, at);
        assert_true(strlen(error) > 0);
    }
    write_recording();
    overwrite(at + 4, &kind, sizeof(kind));
    assert_int_equal(read_recording(&count, &position, error, sizeof(error)), -EBADMSG);
    assert_int_equal(count, 7);
}

static void test_foreign_files_are_refused(void **state)
{
    struct record_reader *r = NULL;

    (void)state;
    assert_int_equal(record_reader_open("/tmp/there/is/none", &r), -ENOENT);
    write_recording();
    overwrite(8, "\377", 1); /* another version */
    assert_int_equal(record_reader_open(path, &r), -EPROTO);
    assert_int_equal(record_reader_open("/proc/self/exe", &r), -EPROTO);
    assert_int_equal(record_reader_open("/dev/null", &r), -EPROTO);
    assert_null(r);
}

static void test_full_disk(void **state)
{
    struct record_writer *w = NULL;

    (void)state;
    assert_int_equal(record_writer_open("/dev/full", &w), -ENOSPC);
    assert_null(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_round_trip), cmocka_unit_test(test_truncated_recording),
        cmocka_unit_test(test_damaged_records),    cmocka_unit_test(test_foreign_files_are_refused),
        cmocka_unit_test(test_full_disk),
    };
    int failed, fd = mkstemp(path);

    if (fd < 0)
        return 1;
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
