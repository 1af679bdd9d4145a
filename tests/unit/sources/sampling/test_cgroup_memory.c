/* Counters and limits of cgroups, from files as both versions of cgroups have them. */
#include "base/cleanup.h"
#include "sources/sampling/cgroup_memory.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/sonde-cgroup-memory-XXXXXX";

static void put(const char *path, const char *text)
{
    char whole[256];
    snprintf(whole, sizeof(whole), "%s/%s", root, path);
    FILE *file = fopen(whole, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_tree(void **state)
{
    char path[256];
    (void)state;
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", root, (const char *[]){"one", "two", "two/below"}[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    put("memory.stat", "pgfault 9\npgmajfault 8\n");
    put("one/memory.limit_in_bytes", "134217728\n");
    put("one/memory.stat", "workingset_refault_anon 1\nworkingset_refault_file 2\npgfault 3\npgmajfault 4\n"
                           "total_workingset_refault_anon 10\ntotal_workingset_refault_file 20\ntotal_pgfault 30\n"
                           "total_pgmajfault 40\ncache 5\nrss 6\nshmem 1\ntotal_cache 50\ntotal_rss 60\n"
                           "total_shmem 11\n");
    put("two/memory.high", "67108864\n");
    put("two/memory.max", "134217728\n");
    put("two/below/memory.high", "max\n");
    put("two/below/memory.max", "100663296\n");
    put("two/below/memory.stat",
        "pgfault 3\npgmajfault 4\npgfaults 7\nworkingset_refault_anon 1\nanon 8192\nfile 12288\n"
        "shmem 4096\nfile_mapped 1\nanon_thp 0\n");
    put("two/below/memory.events", "low 0\nhigh 12\nmax 1\n");
    put("two/below/memory.pressure", "some avg10=0.00 avg60=0.10 avg300=0.00 total=1234\nfull avg10=0.00 total=5\n");
    return 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static int remove_tree(void **state)
{
    (void)state;
    return nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void test_counters_are_those_of_the_cgroup_and_below(void **state)
{
    uint64_t v[CGROUP_MEMORY_COUNTERS];
    _cleanup_close_ int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    (void)state;
    cgroup_memory_read(fd, "/one", v);
    assert_int_equal(v[CGROUP_MEMORY_FAULTS], 30);
    assert_int_equal(v[CGROUP_MEMORY_MAJOR_FAULTS], 40);
    assert_int_equal(v[CGROUP_MEMORY_REFAULTS_FILE], 20);
    assert_int_equal(v[CGROUP_MEMORY_REFAULTS_ANONYMOUS], 10);
    assert_true(v[CGROUP_MEMORY_HIGH] == CGROUP_MEMORY_UNKNOWN);
    assert_true(v[CGROUP_MEMORY_STALLED_US] == CGROUP_MEMORY_UNKNOWN);
    cgroup_memory_read(fd, "/two/below", v);
    assert_int_equal(v[CGROUP_MEMORY_FAULTS], 3);
    assert_int_equal(v[CGROUP_MEMORY_REFAULTS_ANONYMOUS], 1);
    assert_true(v[CGROUP_MEMORY_REFAULTS_FILE] == CGROUP_MEMORY_UNKNOWN);
    assert_int_equal(v[CGROUP_MEMORY_HIGH], 12);
    assert_int_equal(v[CGROUP_MEMORY_STALLED_US], 1234);
    cgroup_memory_read(fd, "/", v);
    assert_int_equal(v[CGROUP_MEMORY_FAULTS], 9);
    cgroup_memory_read(fd, "/gone", v);
    assert_true(v[CGROUP_MEMORY_FAULTS] == CGROUP_MEMORY_UNKNOWN);
}

static void expect_limit(const char *path, const char *expected)
{
    char limit[CGROUP_MEMORY_LIMIT_BYTES];
    _cleanup_close_ int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_string_equal(cgroup_memory_limit(fd, path, limit), expected);
}

static void test_the_lowest_limit_is_named(void **state)
{
    (void)state;
    expect_limit("/one", "memory.limit_in_bytes 128 MiB");
    expect_limit("/two", "memory.high 64.0 MiB");
    expect_limit("/two/below", "memory.high 64.0 MiB"); /* of the cgroup around it */
    put("two/memory.high", "max\n");
    expect_limit("/two/below", "memory.max 96.0 MiB");
    put("one/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    expect_limit("/one", "");
    expect_limit("/", "");
    expect_limit("/gone", "");
}

static void test_memory_is_read_from_both_versions(void **state)
{
    struct cgroup_memory_held held;
    _cleanup_close_ int fd = open(root, O_RDONLY | O_DIRECTORY);
    (void)state;
    assert_true(cgroup_memory_held(fd, "/one", &held));
    assert_true(held.anonymous == 60 && held.cache == 50 && held.shared == 11);
    assert_true(cgroup_memory_held(fd, "/two/below", &held));
    assert_true(held.anonymous == 8192 && held.cache == 12288 && held.shared == 4096);
    assert_false(cgroup_memory_held(fd, "/three", &held));
    assert_true(held.anonymous == 0 && held.cache == 0 && held.shared == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_are_those_of_the_cgroup_and_below),
        cmocka_unit_test(test_the_lowest_limit_is_named),
        cmocka_unit_test(test_memory_is_read_from_both_versions),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
