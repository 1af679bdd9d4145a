/* The cgroup hierarchy that names jobs, by the mounted hierarchies. */
#include "sources/sampling/task_filters.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_cgroup_hierarchy_selection(void **state)
{
    (void)state;
    assert_int_equal(task_filters_pick_cgroups(""), CGROUP_HIERARCHY_V2);
    assert_int_equal(
        task_filters_pick_cgroups("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,memory_recursiveprot\n"),
        CGROUP_HIERARCHY_V2);
    assert_int_equal(
        task_filters_pick_cgroups("32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"),
        CGROUP_HIERARCHY_CPUACCT);
    assert_int_equal(task_filters_pick_cgroups("32 31 0:29 / /a rw - cgroup cgroup rw,pids\n"
                                               "33 31 0:30 / /b rw,relatime shared:5 - cgroup cgroup rw,memory\n"
                                               "41 31 0:38 / /c rw - cgroup2 cgroup2 rw"),
                     CGROUP_HIERARCHY_MEMORY);
    /* systemd's own hierarchy does not name jobs, and a path is not an option. */
    assert_int_equal(task_filters_pick_cgroups("40 31 0:37 / /memory rw - cgroup cgroup rw,xattr,name=systemd\n"),
                     CGROUP_HIERARCHY_V2);
    assert_int_equal(task_filters_pick_cgroups("40 31 0:37 / /x - cgroup"), CGROUP_HIERARCHY_V2);
    assert_int_equal(task_filters_pick_cgroups("40 31 0:37 / /x - cgroup cgroup"), CGROUP_HIERARCHY_V2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cgroup_hierarchy_selection)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
