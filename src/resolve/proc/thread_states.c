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

static bool read_thread(int proc_fd, uint32_t tid, struct thread_state *ret)
{
    _cleanup_buf_ struct buf text = {0}, function = {0};
    struct proc_stat stat;
    char path[48];
    snprintf(path, sizeof(path), "task/%" PRIu32 "/stat", tid);
    if (proc_read(proc_fd, path, STAT_MAX_BYTES, &text) < 0 || !text.data ||
        proc_stat_parse(text.data, text.size, &stat) < 0)
        return false;
    snprintf(path, sizeof(path), "task/%" PRIu32 "/wchan", tid);
    const bool is_known = proc_read(proc_fd, path, NAME_MAX_BYTES, &function) == 0 && function.data &&
                          function.data[0] != '0'; /* "0": it runs, or the kernel does not say */
    *ret = (struct thread_state){.tid = tid, .state = stat.state};
    snprintf(ret->name, sizeof(ret->name), "%s", stat.command);
    snprintf(ret->function, sizeof(ret->function), "%s", is_known ? function.data : "");
    return true;
}

size_t thread_states_read(uint32_t pid, uint32_t first, struct thread_state *ret, size_t max)
{
    _cleanup_close_ int proc_fd = proc_open(pid);
    _cleanup_close_ int task_fd = proc_fd < 0 ? -1 : openat(proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *tasks = task_fd < 0 ? NULL : fdopendir(task_fd);
    struct thread_state beyond;
    size_t count = 0;
    if (!tasks)
        return 0;
    (void)take_fd(&task_fd); /* the directory has it */
    count += first && read_thread(proc_fd, first, max ? ret : &beyond);
    for (const struct dirent *entry; (entry = readdir(tasks));) {
        const uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (tid && tid != first)
            count += count >= max || read_thread(proc_fd, tid, &ret[count]);
    }
    return count;
}

void thread_states_put(uint32_t pid, uint32_t first, size_t max, struct buf *out)
{
    struct thread_state threads[THREAD_STATES_SHOWN];
    const size_t room = max < THREAD_STATES_SHOWN ? max : THREAD_STATES_SHOWN;
    const size_t count = thread_states_read(pid, first, threads, room);
    for (size_t i = 0; i < count && i < room; i++) {
        buf_printf(out, "%s%" PRIu32 " ", i ? "; " : "", threads[i].tid);
        buf_put_shown(out, threads[i].name);
        buf_printf(out, " %c%s%s", threads[i].state, threads[i].function[0] ? " " : "", threads[i].function);
    }
}
