/* See thread_states.h. */
#include "resolve/proc/thread_states.h"

#include "resolve/proc/proc_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define STAT_MAX_BYTES 1024
#define NAME_MAX_BYTES 128 /* of a function of the kernel */

static void put_thread(int proc_fd, uint32_t tid, size_t *count, struct buf *out)
{
    _cleanup_buf_ struct buf text = {0}, function = {0};
    struct proc_stat stat;
    char path[48];
    snprintf(path, sizeof(path), "task/%" PRIu32 "/stat", tid);
    if (proc_read(proc_fd, path, STAT_MAX_BYTES, &text) < 0 || !text.data ||
        proc_stat_parse(text.data, text.size, &stat) < 0)
        return;
    snprintf(path, sizeof(path), "task/%" PRIu32 "/wchan", tid);
    const bool is_known = proc_read(proc_fd, path, NAME_MAX_BYTES, &function) == 0 && function.data;
    buf_printf(out, "%s%" PRIu32 " ", (*count)++ ? "; " : "", tid);
    buf_put_shown(out, stat.command);
    buf_printf(out, " %c", stat.state);
    if (is_known && function.data[0] != '0') /* "0": it runs, or the kernel does not say */
        buf_printf(out, " %s", function.data);
}

void thread_states_put(uint32_t pid, uint32_t first, size_t max, struct buf *out)
{
    _cleanup_close_ int proc_fd = proc_open(pid);
    _cleanup_close_ int task_fd = proc_fd < 0 ? -1 : openat(proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *tasks = task_fd < 0 ? NULL : fdopendir(task_fd);
    size_t count = 0;
    if (!tasks)
        return;
    (void)take_fd(&task_fd); /* the directory has it */
    put_thread(proc_fd, first, &count, out);
    for (const struct dirent *entry; count < max && (entry = readdir(tasks));) {
        const uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (tid && tid != first)
            put_thread(proc_fd, tid, &count, out);
    }
}
