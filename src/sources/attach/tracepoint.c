/* Reads the events directory of tracefs; see tracepoint.h. */
#include "sources/attach/tracepoint.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <bpf/libbpf.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAMES_MAX 4096

static int open_mounted(void)
{
    static const char *const places[] = {"/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"};
    for (size_t i = 0; i < array_size(places); i++) {
        const int fd = open(places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
            return fd;
    }
    return -errno;
}

/* A detached mount, visible to this process only, which goes away with its descriptor. */
static int open_own(void)
{
    _cleanup_close_ int fs = (int)syscall(SYS_fsopen, "tracefs", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    _cleanup_close_ int mount = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
    if (mount < 0)
        return -errno;
    const int fd = openat(mount, "events", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_events(void)
{
    const int fd = open_mounted();
    if (fd >= 0)
        return fd;
    const int own = open_own();
    if (own >= 0)
        return own;
    return own == -EPERM || own == -EACCES ? own : -ENODEV;
}

int tracepoint_id(const char *subsystem, const char *name, uint64_t *ret)
{
    char path[512], text[32] = "";
    if (snprintf(path, sizeof(path), "%s/%s/id", subsystem, name) >= (int)sizeof(path))
        return -ENOENT;
    const int events = open_events();
    if (events < 0)
        return events;
    _cleanup_close_ int id = openat(events, path, O_RDONLY | O_CLOEXEC);
    const int error = errno;
    close(events);
    if (id < 0)
        return -error;
    const ssize_t size = read(id, text, sizeof(text) - 1);
    if (size <= 0)
        return size < 0 ? -errno : -ENODATA;
    text[strcspn(text, "\n")] = '\0';
    int64_t number;
    int r = units_parse_integer(text, 0, INT64_MAX, &number);
    if (r == 0)
        *ret = (uint64_t)number;
    return r;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Takes ownership of `fd`. */
static size_t read_names(int fd, char **names, size_t max)
{
    DIR *directory = fdopendir(fd);
    struct dirent *entry;
    size_t count = 0;
    if (!directory) {
        close(fd);
        return 0;
    }
    while (count < max && (entry = readdir(directory)))
        if (entry->d_name[0] != '.' && entry->d_type == DT_DIR && (names[count] = strdup(entry->d_name)))
            count++;
    closedir(directory);
    qsort(names, count, sizeof(*names), compare_names);
    return count;
}

void tracepoint_list(const char *subsystem, char *ret, size_t size)
{
    static const char more[] = ", ...";
    ret[0] = '\0';
    const int events = open_events();
    if (events < 0)
        return;
    const int directory = openat(events, subsystem ? subsystem : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(events);
    _cleanup_free_ char **names = calloc(NAMES_MAX, sizeof(*names));
    const size_t count = directory >= 0 && names ? read_names(directory, names, NAMES_MAX) : 0;
    if (directory >= 0 && !names)
        close(directory);
    size_t used = 0, i = 0;
    for (; i < count && used + strlen(names[i]) + sizeof(more) + 2 < size; i++)
        used += (size_t)snprintf(ret + used, size - used, "%s%s", i ? ", " : "", names[i]);
    if (i < count && used)
        snprintf(ret + used, size - used, "%s", more);
    for (i = 0; i < count; i++)
        free(names[i]);
}

int tracepoint_attach(struct bpf_program *program, const char *subsystem, const char *name, struct bpf_link **ret)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr)};
    uint64_t id;
    int r = tracepoint_id(subsystem, name, &id);
    if (r < 0)
        return r;
    attr.config = id;
    /* One event on one CPU suffices: programs on a tracepoint run on every CPU. */
    const int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct bpf_link *link = bpf_program__attach_perf_event(program, fd); /* owns fd on success */
    if (!link) {
        r = -errno;
        close(fd);
        return r;
    }
    *ret = link;
    return 0;
}
