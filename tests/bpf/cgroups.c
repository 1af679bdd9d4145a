/* Cgroups as directories; see cgroups.h. */
#include "cgroups.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

uint64_t cgroup_make(const char *path)
{
    struct stat status;
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return 0;
    return stat(path, &status) < 0 ? 0 : status.st_ino;
}

static bool write_file(const char *directory, const char *name, const char *text)
{
    char path[320];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "we");
    const bool is_written = file && fputs(text, file) >= 0;
    return file && fclose(file) == 0 && is_written;
}

uint64_t cgroup_make_limited(const char *label, uint64_t limit_bytes, char ret_path[256], bool *ret_is_v2)
{
    static const char of_v1[] = "/sys/fs/cgroup/memory", of_v2[] = "/sys/fs/cgroup";
    char limit[32];
    *ret_is_v2 = access(of_v1, F_OK) < 0;
    if (*ret_is_v2)
        (void)write_file(of_v2, "cgroup.subtree_control", "+memory");
    snprintf(limit, sizeof(limit), "%llu", (unsigned long long)limit_bytes);
    snprintf(ret_path, 256, "%s%s", *ret_is_v2 ? of_v2 : of_v1, label);
    const uint64_t id = cgroup_make(ret_path);
    return id && write_file(ret_path, *ret_is_v2 ? "memory.max" : "memory.limit_in_bytes", limit) ? id : 0;
}

bool cgroup_enter(const char *path, pid_t pid)
{
    char procs[512];
    snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
    FILE *file = fopen(procs, "we");
    const bool is_written = file && fprintf(file, "%d\n", pid) > 0;
    return file && fclose(file) == 0 && is_written;
}

void cgroup_run(const char *path, void (*work)(void))
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        if (!cgroup_enter(path, 0))
            _exit(1);
        work();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

void cgroup_remove(const char *path)
{
    for (int i = 0; rmdir(path) < 0; i++) {
        assert_in_range(i, 0, 3000);
        usleep(20000);
    }
}
