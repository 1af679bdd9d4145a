/* Which files are a trace: one, or a rotated set in the order of its numbers. */
#include "trace/import/triton_files.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/test-triton_files-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void make_file(const char *name)
{
    _cleanup_close_ int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
}

static void assert_found(const struct triton_files *files, size_t i, const char *name)
{
    assert_true(i < files->count);
    assert_string_equal(files->paths[i], path_of(name));
}

static void test_a_rotated_set_is_in_the_order_of_its_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"t.10",    "t.9.gz",    "t.11.zst", "t.11.gz", "t.8",
                                        "t.8.old", "t.summary", "u.7",      "t.12x"};
    _cleanup_(triton_files_clear) struct triton_files files = {0};
    for (size_t i = 0; i < array_size(names); i++)
        make_file(names[i]);
    assert_int_equal(triton_files_find(path_of("t"), &files), 0);
    assert_int_equal(files.count, 4);
    assert_found(&files, 0, "t.8");
    assert_found(&files, 1, "t.9.gz");
    assert_found(&files, 2, "t.10");
    assert_found(&files, 3, "t.11.gz"); /* the first of two with one number */
    for (size_t i = 0; i < array_size(names); i++)
        unlink(path_of(names[i]));
}

static void test_a_file_of_the_name_is_not_a_set(void **state)
{
    (void)state;
    _cleanup_(triton_files_clear) struct triton_files files = {0}, input = {0};
    make_file("t");
    make_file("t.0");
    assert_int_equal(triton_files_find(path_of("t"), &files), 0);
    assert_int_equal(files.count, 1);
    assert_found(&files, 0, "t");
    assert_int_equal(triton_files_find("-", &input), 0);
    assert_int_equal(input.count, 1);
    assert_string_equal(input.paths[0], "-");
    unlink(path_of("t"));
    unlink(path_of("t.0"));
}

static void test_no_file_of_the_name_is_an_error(void **state)
{
    (void)state;
    struct triton_files files = {0};
    assert_int_equal(triton_files_find(path_of("t"), &files), -ENOENT);
    assert_int_equal(triton_files_find(path_of("nowhere/t"), &files), -ENOENT);
    assert_int_equal(files.count, 0);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rotated_set_is_in_the_order_of_its_numbers),
        cmocka_unit_test(test_a_file_of_the_name_is_not_a_set),
        cmocka_unit_test(test_no_file_of_the_name_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
