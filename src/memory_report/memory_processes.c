/* See memory_processes.h. */
#include "memory_report/memory_processes.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/labelled_number.h"
#include "resolve/proc/cgroups.h"
#include "resolve/proc/proc_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES 65536

static char *read_cgroup(int proc_fd)
{
    _cleanup_buf_ struct buf text = {0};
    size_t size;
    if (proc_read(proc_fd, "cgroup", FILE_MAX_BYTES, &text) < 0 || !text.data)
        return NULL;
    const char *path = cgroup_choose_path(text.data, text.size, &size);
    return path ? strndup(path, size) : NULL;
}

/* False: it is gone, or a kernel thread. */
static bool read_process(uint32_t pid, struct memory_process *ret)
{
    _cleanup_buf_ struct buf status = {0};
    _cleanup_close_ int fd = proc_open(pid);
    struct proc_stat stat;
    if (fd < 0 || proc_read_stat(fd, &stat) < 0 || stat.is_kernel_thread ||
        proc_read(fd, "status", FILE_MAX_BYTES, &status) < 0 || !status.data)
        return false;
    *ret = (struct memory_process){.pid = pid,
                                   .start_ns = stat.start_boot_ns,
                                   .anonymous = labelled_number(status.data, "\nRssAnon:") * 1024,
                                   .shared = labelled_number(status.data, "\nRssShmem:") * 1024,
                                   .swapped = labelled_number(status.data, "\nVmSwap:") * 1024,
                                   .cgroup = read_cgroup(fd)};
    memcpy(ret->command, stat.command, sizeof(ret->command));
    return true;
}

static int compare_pids(const void *a, const void *b)
{
    const struct memory_process *one = a, *other = b;
    return one->pid < other->pid ? -1 : one->pid > other->pid;
}

int memory_processes_read(struct memory_process **ret, size_t *ret_count)
{
    struct memory_process *list = calloc(MEMORY_PROCESSES_MAX, sizeof(*list));
    DIR *all = opendir("/proc");
    size_t count = 0;
    if (!list || !all) {
        const int r = list ? -errno : -ENOMEM;
        free(list);
        if (all)
            closedir(all);
        return r;
    }
    for (const struct dirent *d; count < MEMORY_PROCESSES_MAX && (d = readdir(all));) {
        const int pid = atoi(d->d_name);
        count += pid > 0 && read_process((uint32_t)pid, &list[count]);
    }
    closedir(all);
    qsort(list, count, sizeof(*list), compare_pids);
    *ret = list;
    *ret_count = count;
    return 0;
}

void memory_processes_free(struct memory_process *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(list[i].cgroup);
    free(list);
}

void memory_processes_compare(struct memory_process *list, size_t count, const struct memory_process *before,
                              size_t before_count)
{
    for (size_t i = 0; i < count; i++) {
        const struct memory_process *found =
            before_count ? bsearch(&list[i], before, before_count, sizeof(*before), compare_pids) : NULL;
        const uint64_t before_bytes = found && found->start_ns == list[i].start_ns ? memory_process_bytes(found) : 0;
        list[i].growth = (int64_t)memory_process_bytes(&list[i]) - (int64_t)before_bytes;
    }
}
