/* Opens a perf map; see perf_map_file.h. */
#include "resolve/files/perf_map_file.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "resolve/proc/proc_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int open_beneath(int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
    const struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_MAGICLINKS};
    const int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

/* Checks the file with O_PATH before opening it: opening a device or a FIFO could have side effects. */
static int open_map(int tmp_fd, const char *name, const struct proc_ids *ids, uint64_t not_before_ns)
{
    _cleanup_close_ int path_fd =
        open_beneath(tmp_fd, name, O_PATH | O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    struct stat st;
    if (path_fd < 0)
        return path_fd == -ENOENT ? -ENOENT : -EPERM; /* -ELOOP: a symbolic link */
    if (fstat(path_fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || (st.st_uid != 0 && !proc_ids_have_user(ids, st.st_uid)))
        return -EPERM;
    if (clock_ns_of(st.st_mtim) < not_before_ns)
        return -ESTALE;
    char self[40];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
    const int fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

int perf_map_file_open(int proc_fd, uint64_t not_before_ns)
{
    struct proc_ids ids;
    int r = proc_read_ids(proc_fd, &ids);
    if (r < 0)
        return r;
    _cleanup_close_ int root_fd = openat(proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return -errno;
    _cleanup_close_ int tmp_fd = open_beneath(root_fd, "tmp", O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT);
    if (tmp_fd < 0)
        return tmp_fd;
    char name[40];
    snprintf(name, sizeof(name), "perf-%" PRIu32 ".map", ids.innermost_pid);
    return open_map(tmp_fd, name, &ids, not_before_ns);
}
