/* Sums over the files of an I/O report. */
#include "model/io_merge.h"

#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct io_report_file file_of(const char *path, uint32_t process, uint64_t read_ns)
{
    return (struct io_report_file){.path = path,
                                   .mount_point = "/",
                                   .file_system = "ext4",
                                   .process = process,
                                   .block_bytes = 4096,
                                   .reads = {.operations = 10, .bytes = 100, .time = {5, 5 + read_ns, read_ns}}};
}

static void test_files_are_added_by_path_slowest_first(void **state)
{
    (void)state;
    const struct io_report_file files[] = {file_of("/a", 0, 10), file_of("/b", 0, 35), file_of("/a", 1, 30)};
    const struct io_report report = {.files = files, .file_count = 3};
    _cleanup_free_ struct io_merged_file *merged = NULL;
    size_t count;
    assert_int_equal(io_merge_files(&report, &merged, &count), 0);
    assert_int_equal(count, 2);
    assert_string_equal(merged[0].sum.path, "/a");
    assert_int_equal(merged[0].process_count, 2);
    assert_int_equal(merged[0].sum.process, 1);
    assert_int_equal(merged[0].sum.block_bytes, 4096);
    assert_int_equal(merged[0].sum.reads.operations, 20);
    assert_int_equal(merged[0].sum.reads.bytes, 200);
    assert_int_equal(io_file_time_ns(&merged[0].sum), 40);
    assert_string_equal(merged[1].sum.path, "/b");
    assert_int_equal(merged[1].process_count, 1);
}

static void test_same_path_on_other_mount_is_another_file(void **state)
{
    (void)state;
    struct io_report_file files[] = {file_of("/a", 0, 10), file_of("/a", 1, 30)};
    files[1].mount_point = "/a";
    const struct io_report report = {.files = files, .file_count = 2};
    _cleanup_free_ struct io_merged_file *merged = NULL;
    size_t count;
    assert_int_equal(io_merge_files(&report, &merged, &count), 0);
    assert_int_equal(count, 2);
}

static void test_report_without_files(void **state)
{
    (void)state;
    const struct io_report report = {0};
    _cleanup_free_ struct io_merged_file *merged = NULL;
    size_t count = 7;
    assert_int_equal(io_merge_files(&report, &merged, &count), 0);
    assert_int_equal(count, 0);
}

static void test_times_span_both_and_ignore_what_did_not_happen(void **state)
{
    (void)state;
    struct io_report_file sum = {.reads.time = {50, 60, 10}, .writes.slowest_ns = 9, .writes.slowest_bytes = 1};
    const struct io_report_file more = {
        .reads.time = {20, 55, 30}, .sync = {7, 9, 2}, .writes = {.slowest_ns = 8, .slowest_bytes = 2}};
    io_merge_add(&sum, &more);
    assert_int_equal(sum.reads.time.first_ns, 20);
    assert_int_equal(sum.reads.time.last_ns, 60);
    assert_int_equal(sum.reads.time.ns, 40);
    assert_int_equal(sum.sync.first_ns, 7);
    assert_int_equal(sum.open.last_ns, 0);
    assert_int_equal(sum.writes.slowest_ns, 9);
    assert_int_equal(sum.writes.slowest_bytes, 1);
    io_merge_add(&sum, &(struct io_report_file){0});
    assert_int_equal(sum.reads.time.first_ns, 20);
}

static void test_common_values_are_joined(void **state)
{
    (void)state;
    struct io_report_file sum = {.sizes = {{4096, 10}, {512, 5}, {1, 4}, {2, 3}}};
    const struct io_report_file more = {.sizes = {{512, 20}, {8192, 4}}};
    static const struct io_report_common expected[] = {{512, 25}, {4096, 10}, {1, 4}, {8192, 4}};
    io_merge_add(&sum, &more);
    assert_memory_equal(sum.sizes, expected, sizeof(expected));
    io_merge_add(&sum, &(struct io_report_file){0});
    assert_memory_equal(sum.sizes, expected, sizeof(expected));
    assert_int_equal(sum.strides[0].count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_added_by_path_slowest_first),
        cmocka_unit_test(test_same_path_on_other_mount_is_another_file),
        cmocka_unit_test(test_report_without_files),
        cmocka_unit_test(test_times_span_both_and_ignore_what_did_not_happen),
        cmocka_unit_test(test_common_values_are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
