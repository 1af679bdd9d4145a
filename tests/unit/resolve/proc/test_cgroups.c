/* Which of a process's cgroup paths is used, and the mapping from an id to a path in this machine's own hierarchy. */
#include "resolve/proc/cgroups.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define ID "3f2b7a9c0d1e4f5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c"

static const struct {
    const char *name, *text, *path;
} texts[] = {
    {"v2", "0::/system.slice/nginx.service\n", "/system.slice/nginx.service"},
    {"v2, without a line feed", "0::/a", "/a"},
    {"v2 root", "0::/\n", "/"},
    {"v2 in another namespace", "0::/../../kubepods/x\n", "/../../kubepods/x"},
    {"v1, all alike", "4:memory:/docker/" ID "\n1:name=systemd:/docker/" ID "\n", "/docker/" ID},
    {"hybrid: Docker in v1, its service in v2",
     "4:memory:/docker/" ID "\n1:name=systemd:/docker/" ID "\n0::/system.slice/containerd.service\n", "/docker/" ID},
    {"hybrid: Slurm has only some controllers",
     "9:freezer:/slurm/uid_1/job_5/step_0\n8:cpu,cpuacct:/\n1:name=systemd:/system.slice/slurmd.service\n"
     "0::/system.slice/slurmd.service\n",
     "/slurm/uid_1/job_5/step_0"},
    {"hybrid: no job; the one that is not the root", "9:name=systemd:/\n4:memory:/api/1\n0::/\n", "/api/1"},
    {"hybrid: v2 first, then systemd's", "4:memory:/a\n1:name=systemd:/b\n0::/c\n", "/c"},
    {"hybrid: systemd's before a controller's", "4:memory:/a\n1:name=systemd:/b\n0::/\n", "/b"},
    {"colons in the path", "0::/a:b:c\n", "/a:b:c"},
    {"damaged", "nonsense\n:\n1:\n::\n0::relative\n", NULL},
    {"empty", "", NULL},
};

static void test_cgroup_path_selection(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t size;
        const char *path = cgroup_choose_path(texts[i].text, strlen(texts[i].text), &size);
        print_message("%s\n", texts[i].name);
        if (!texts[i].path) {
            assert_null(path);
            continue;
        }
        assert_non_null(path);
        assert_int_equal(size, strlen(texts[i].path));
        assert_memory_equal(path, texts[i].path, size);
    }
}

static void test_cache_is_bounded_and_references_stay_valid(void **state)
{
    (void)state;
    struct cgroups *c = NULL;
    assert_int_equal(cgroups_new("/dev/null", 8, &c), 0);
    struct cgroup *first = cgroups_by_text(c, "0::/system.slice/a.service", 26);
    assert_non_null(first);
    for (int i = 0; i < 1000; i++) {
        char text[64];
        int n = snprintf(text, sizeof(text), "0::/system.slice/unit%d.service", i);
        cgroup_unref(cgroups_by_text(c, text, (size_t)n));
    }
    assert_true(cgroups_bytes(c) < 16384);
    assert_string_equal(first->identity.systemd_unit, "a.service");
    assert_string_equal(first->service, "a");
    cgroups_free(c);
    assert_string_equal(first->path, "/system.slice/a.service");
    cgroup_unref(first);
}

static void test_same_text_is_same_cgroup(void **state)
{
    (void)state;
    struct cgroups *c = NULL;
    assert_int_equal(cgroups_new("/dev/null", 8, &c), 0);
    assert_false(cgroups_is_unified(c));
    struct cgroup *a = cgroups_by_text(c, "0::/a\n", 6), *b = cgroups_by_text(c, "0::/a\n", 6);
    assert_ptr_equal(a, b);
    assert_null(cgroups_by_id(c, 1)); /* no hierarchy is known */
    cgroup_unref(a);
    cgroup_unref(b);
    cgroups_free(c);
}

static const struct {
    const char *mountinfo, *mount;
    bool unified;
} mounts[] = {
    {"26 25 0:24 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", "/sys/fs/cgroup", true},
    {"30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n31 25 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
     "32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n33 25 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
     "/sys/fs/cgroup/memory", false},
    {"31 25 0:27 / /c/pids rw - cgroup cgroup rw,pids\n32 25 0:28 / /c/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
     "/c/cpu,cpuacct", false},
    {"30 25 0:26 / /c rw - cgroup2 cgroup2 rw\n31 25 0:27 / /net_cls rw - cgroup net_cls rw,net_cls\n", "/c", false},
    {"30 25 0:26 / / rw - ext4 /dev/sda1 rw\nbroken\n - \n - cgroup2 \n", "", false},
    {"", "", false},
};

static void test_ids_belong_to_one_hierarchy(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
        char path[] = "/tmp/sonde-mountinfo-XXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, mounts[i].mountinfo, strlen(mounts[i].mountinfo)), strlen(mounts[i].mountinfo));
        close(fd);
        struct cgroups *c = NULL;
        assert_int_equal(cgroups_new(path, 8, &c), 0);
        unlink(path);
        assert_string_equal(cgroups_id_mount(c), mounts[i].mount);
        assert_int_equal(cgroups_is_unified(c), mounts[i].unified);
        cgroups_free(c);
    }
}

static void test_path_of_a_cgroup_id(void **state)
{
    (void)state;
    struct cgroups *c = NULL;
    assert_int_equal(cgroups_new(NULL, 8, &c), 0);
    char path[256];
    snprintf(path, sizeof(path), "%s/sonde-test-%d.service", cgroups_id_mount(c), getpid());
    if (!cgroups_id_mount(c)[0] || mkdir(path, 0755) < 0) {
        print_message("skipped: cannot make a cgroup at %s: %s\n", path, strerror(errno));
        cgroups_free(c);
        skip();
    }
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    struct cgroup *a = cgroups_by_id(c, st.st_ino), *b = cgroups_by_id(c, st.st_ino);
    rmdir(path);
    assert_non_null(a);
    assert_ptr_equal(a, b);
    assert_string_equal(a->path, path + strlen(cgroups_id_mount(c)));
    assert_non_null(strstr(a->service, "sonde-test-"));
    cgroup_unref(a);
    cgroup_unref(b);
    a = cgroups_by_id(c, st.st_ino); /* gone, but cached */
    assert_non_null(a);
    cgroup_unref(a);
    assert_null(cgroups_by_id(c, 0x7fffffff12345678));
    assert_null(cgroups_by_id(c, 0x7fffffff12345678));
    cgroups_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cgroup_path_selection),
        cmocka_unit_test(test_cache_is_bounded_and_references_stay_valid),
        cmocka_unit_test(test_same_text_is_same_cgroup),
        cmocka_unit_test(test_ids_belong_to_one_hierarchy),
        cmocka_unit_test(test_path_of_a_cgroup_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
