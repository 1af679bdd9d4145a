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
