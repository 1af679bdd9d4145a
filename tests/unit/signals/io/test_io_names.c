/* Paths of files, from their mount and the path below it. */
#include "signals/io/io_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void expect_path(const char *mount, const char *below, bool is_outside, const char *expected)
{
    struct io_named named = {.type = "ext4"};
    char path[64];
    snprintf(named.path, sizeof(named.path), "%s", mount);
    io_named_join(&named, below, is_outside, path, sizeof(path));
    assert_string_equal(path, expected);
}

static void test_file_of_a_mount(void **state)
{
    (void)state;
    expect_path("/", "/etc/fstab", false, "/etc/fstab");
    expect_path("/mnt/data", "/a/b", false, "/mnt/data/a/b");
}

static void test_mount_point_itself(void **state)
{
    (void)state;
    expect_path("/", "/", false, "/");
    expect_path("/run/app.lock", "/", false, "/run/app.lock"); /* a file that is mounted on another one */
}

static void test_file_that_the_mount_does_not_show(void **state)
{
    (void)state;
    expect_path("/run/app.lock", "/usr/lib/libc.so.6", true, "ext4:/usr/lib/libc.so.6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_of_a_mount),
        cmocka_unit_test(test_mount_point_itself),
        cmocka_unit_test(test_file_that_the_mount_does_not_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
