/* Paths of mounts and cgroups, whatever the names are. */
#include "sources/io/io_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void expect_path(const char *names, size_t size, const char *expected)
{
    struct io_name name = {.size = (__u32)size};
    char path[64];
    memcpy(name.names, names, size < sizeof(name.names) ? size : sizeof(name.names));
    io_path_format(&name, path, sizeof(path));
    assert_string_equal(path, expected);
}

static void test_paths(void **state)
{
    (void)state;
    expect_path("", 0, "/");
    expect_path("data\0mnt\0", 9, "/mnt/data");
    expect_path("a\nb \"c\"\0\xff\xfe\0", 11, "/\xff\xfe/a\nb \"c\"");
    expect_path("\0\0", 2, "/");          /* names that could not be read */
    expect_path("data\0mnt", 8, "/data"); /* not terminated */
}

static void test_names_that_were_cut(void **state)
{
    struct io_name name = {.size = IO_NAMES_BYTES + 3, .is_cut = 1};
    char path[IO_NAMES_BYTES + IO_NAME_MAX + 16];
    (void)state;
    memset(name.names, 'x', IO_NAMES_BYTES);
    snprintf(name.names, 6, "inner");
    name.names[IO_NAMES_BYTES + 2] = '\0';
    io_path_format(&name, path, sizeof(path));
    assert_memory_equal(path, "/.../x", 6);
    assert_string_equal(path + strlen(path) - 6, "/inner");
    char small[10];
    io_path_format(&name, small, sizeof(small));
    assert_string_equal(small, "/.../xxxx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_names_that_were_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
