/* The report of who holds the memory of this node, which knows this test's process and program. */
#include "memory_report/memory_report.h"

#include "base/cleanup.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char program[PATH_MAX];

static const struct memory_file *file_of(const struct memory_report *r, const struct stat *wanted)
{
    for (size_t i = 0; i < r->file_count; i++)
        if (r->files[i].device == wanted->st_dev && r->files[i].inode == wanted->st_ino)
            return &r->files[i];
    return NULL;
}

static void test_lists_begin_with_the_largest(void **state)
{
    (void)state;
    _cleanup_(memory_report_clear) struct memory_report r = {0};
    uint64_t cached = 0;
    assert_int_equal(memory_report_gather(&r, 0, NULL, 0), 0);
    for (size_t i = 1; i < r.process_count; i++)
        assert_true(memory_process_bytes(&r.processes[i - 1]) >= memory_process_bytes(&r.processes[i]));
    for (size_t i = 1; i < r.cgroup_count; i++)
        assert_true(r.cgroups[i - 1].held.anonymous + r.cgroups[i - 1].held.cache >=
                    r.cgroups[i].held.anonymous + r.cgroups[i].held.cache);
    for (size_t i = 0; i < r.file_count; i++) {
        assert_true(i == 0 || r.files[i - 1].cached >= r.files[i].cached);
        cached += r.files[i].cached;
    }
    assert_true(memory_report_cached(&r) == cached);
}

static void test_processes_are_found_by_their_number(void **state)
{
    (void)state;
    _cleanup_(memory_report_clear) struct memory_report r = {0};
    assert_int_equal(memory_report_gather(&r, 0, NULL, 0), 0);
    const struct memory_process *own = memory_report_process(&r, (uint32_t)getpid());
    assert_non_null(own);
    assert_int_equal(own->pid, getpid());
    assert_null(memory_report_process(&r, 0));
    assert_null(memory_report_process(&r, UINT32_MAX));
}

static void test_given_paths_are_among_the_files(void **state)
{
    (void)state;
    _cleanup_(memory_report_clear) struct memory_report r = {0}, without = {0};
    char *paths[] = {program, "/nowhere"};
    struct stat st;
    assert_int_equal(stat(program, &st), 0);
    assert_int_equal(memory_report_gather(&r, 0, paths, 1), 0);
    assert_non_null(file_of(&r, &st));
    assert_int_equal(memory_report_gather(&without, 0, paths, 2), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_begin_with_the_largest),
        cmocka_unit_test(test_processes_are_found_by_their_number),
        cmocka_unit_test(test_given_paths_are_among_the_files),
    };
    if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
