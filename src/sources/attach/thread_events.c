/* Events per task, on any CPU; see thread_events.h. */
#include "sources/attach/thread_events.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct thread_events {
    size_t count;
    int fds[THREAD_EVENTS_MAX];
};

static int open_event(const struct perf_event_attr *attr, int program_fd, pid_t tid)
{
    _cleanup_close_ int fd = (int)syscall(SYS_perf_event_open, attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_fd) < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
        return -errno;
    return take_fd(&fd);
}

int thread_events_open(const struct perf_event_attr *attr, int program_fd, uint32_t pid, struct thread_events **ret)
{
    _cleanup_(thread_events_freep) struct thread_events *e = calloc(1, sizeof(*e));
    struct perf_event_attr own = *attr;
    char path[32];
    int r = -ESRCH;
    if (!e)
        return -ENOMEM;
    own.size = sizeof(own);
    own.disabled = 1;
    own.inherit = 1;
    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    DIR *threads = opendir(path);
    if (!threads)
        return errno == ENOENT ? -ESRCH : -errno;
    for (const struct dirent *d; e->count < THREAD_EVENTS_MAX && (d = readdir(threads));) {
        const pid_t tid = atoi(d->d_name);
        const int fd = tid > 0 ? open_event(&own, program_fd, tid) : r;
        if (fd >= 0)
            e->fds[e->count++] = fd;
        else
            r = fd;
    }
    closedir(threads);
    if (!e->count)
        return r;
    *ret = take_ptr(e);
    return 0;
}

void thread_events_free(struct thread_events *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->count; i++)
        close(e->fds[i]);
    free(e);
}
