/* Lines of mountinfo: fields, options, and the mount that contains a path. */
#include "base/mounts.h"

#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char text[] = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
                           "22 21 0:5 / /proc rw - proc proc rw\n"
                           "no line at all\n"
                           "23 21 0:40 / /mnt/data rw shared:7 master:2 - nfs4 host:/data rw,vers=4.2\n"
                           "24 23 0:41 / /mnt/data/a\\040b rw - fuse.x x rw,user_id=0\n"
                           "25 21 0:42 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                           "26 21 0:43 / /mnt/data rw - tmpfs none\n"
                           "0 0 0:0 / / rw - tmpfs none rw";

static void test_mountinfo_lines(void **state)
{
    (void)state;
    static const uint64_t ids[] = {21, 22, 23, 24, 25, 26};
    const char *at = text;
    struct mount m;
    for (size_t i = 0; i < array_size(ids); i++) {
        assert_true(mounts_next(&at, &m));
        assert_int_equal(m.id, ids[i]);
        assert_int_equal(mounts_text_is(&m.type, "cgroup"), m.id == 25);
        assert_int_equal(mounts_has_option(&m, "cpu"), m.id == 25);
        assert_false(mounts_has_option(&m, "cp"));
        assert_int_equal(mounts_text_is(&m.point, "/proc"), m.id == 22);
    }
    assert_false(mounts_next(&at, &m));
}

static void test_truncated_lines_are_safe(void **state)
{
    (void)state;
    for (size_t size = 0; size < sizeof(text); size++) {
        char copy[sizeof(text)] = "";
        for (size_t i = 0; i < size; i++)
            copy[i] = text[i];
        const char *at = copy;
        struct mount m;
        while (mounts_next(&at, &m))
            assert_true(m.options.at + m.options.size <= copy + size);
        mounts_find(copy, "/mnt/data/a b");
    }
}

static void test_mount_of_a_path(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        uint64_t id;
    } rows[] = {
        {"/", 21},
        {"/usr/bin/x", 21},
        {"/proc", 22},
        {"/proc/1/exe", 22},
        {"/processes", 21},
        {"/mnt", 21},
        {"/mnt/data/x", 26},
        {"/mnt/data", 26},
        {"/mnt/database", 21},
        {"/mnt/data/a b/c", 24},
        {"/mnt/data/a\\040b", 26},
        {"relative", 0},
        {"", 0},
    };
    for (size_t i = 0; i < array_size(rows); i++)
        assert_int_equal(mounts_find(text, rows[i].path), rows[i].id);
}

/* The kernel never writes these: no path is read past its end, and an invalid escape is kept literally. */
static void test_invalid_escapes_are_literal(void **state)
{
    (void)state;
    static const char odd[] = "5 1 0:1 / /a\\000\\000b rw - t s o\n"
                              "6 1 0:1 / /b\\x41c rw - t s o\n"
                              "7 1 0:1 / /c\\04 rw - t s o\n";
    assert_int_equal(mounts_find(odd, "/a"), 0);
    assert_int_equal(mounts_find(odd, "/b\\x41c/d"), 6);
    assert_int_equal(mounts_find(odd, "/c\\04"), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mountinfo_lines),
        cmocka_unit_test(test_truncated_lines_are_safe),
        cmocka_unit_test(test_mount_of_a_path),
        cmocka_unit_test(test_invalid_escapes_are_literal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
