/* Detects runtimes from /proc; see runtimes.h. Does not open or stat the programs: their file system may hang. */
#include "resolve/interpreter/runtimes.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "resolve/interpreter/v8_layout.h"
#include "resolve/proc/maps.h"
#include "resolve/proc/proc_files.h"
#include "resolve/process/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHILDREN_MAX_BYTES 16 /* one PID is enough */

static bool path_contains(const struct maps_line *line, const char *part)
{
    return memmem(line->path, line->path_bytes, part, strlen(part));
}

/* A mapping with the name of a runtime (also when the program is ld.so), or a program as large as one. */
static bool is_runtime(const struct maps_line *line, const char *program)
{
    if (path_contains(line, "/libjvm.so") || path_contains(line, "/libnode") || path_contains(line, "/node"))
        return true;
    const size_t bytes = maps_path_without_deleted(line->path, line->path_bytes);
    return line->file_offset + line->end - line->start >= V8_FILE_MIN_BYTES && bytes == strlen(program) &&
           memcmp(line->path, program, bytes) == 0;
}

static bool may_have_code(struct processes *processes, int proc, uint32_t pid)
{
    _cleanup_buf_ struct buf maps = {0};
    char program[PATH_MAX];
    if (proc_read_executable(proc, program, sizeof(program)) < 0 || program[0] == '\0' ||
        processes_read_maps(processes, proc, pid, &maps) < 0 || maps.size == 0)
        return true;
    struct cursor text = cursor_make(maps.data, maps.size);
    for (struct maps_line line; maps_next_executable(&text, &line);)
        if (is_runtime(&line, program))
            return true;
    return false;
}

static bool may_have_children(int proc)
{
    const int fd = openat(proc, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *tasks = fd < 0 ? NULL : fdopendir(fd);
    if (!tasks) {
        if (fd >= 0)
            close(fd);
        return true;
    }
    bool any = false;
    for (const struct dirent *entry; !any && (entry = readdir(tasks));) {
        char name[sizeof("task//children") + sizeof(entry->d_name)];
        _cleanup_buf_ struct buf children = {0};
        snprintf(name, sizeof(name), "task/%s/children", entry->d_name);
        any =
            entry->d_name[0] != '.' && (proc_read(proc, name, CHILDREN_MAX_BYTES, &children) < 0 || children.size > 0);
    }
    closedir(tasks);
    return any;
}

bool runtimes_may_be_in(struct processes *processes, const uint32_t *pids, size_t count)
{
    processes_begin_turn(processes);
    for (size_t i = 0; i < count; i++) {
        _cleanup_close_ int proc = proc_open(pids[i]);
        if (proc < 0 || may_have_code(processes, proc, pids[i]) || may_have_children(proc))
            return true;
    }
    return count == 0;
}
