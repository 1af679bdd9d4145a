/* Existing processes as event records; see process_snapshot.h. Each process is written as if it executed its program
 * now: RECORD_PROCESS_FORK (its parent), RECORD_PROCESS_EXEC (its name), and a RECORD_PROCESS_MMAP for each
 * executable mapping. */
#include "pipeline/process_snapshot.h"

#include "resolve/proc/maps.h"
#include "resolve/proc/proc_files.h"
#include "resolve/process/processes.h"
#include "signals/signals.h"
#include "sources/events/batch.h"
#include "sources/events/record_file.h"

#include "probes/process.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#define BATCH_BYTES    (1 << 20)
#define PATH_MAX_BYTES 4096

struct snapshot {
    struct processes *processes;
    struct record_writer *writer;
    uint64_t time_ns;
    struct batch *batch;
    struct buf maps;
    struct record_header header; /* of the current process */
};

static int flush(struct snapshot *s)
{
    int r = record_writer_add(s->writer, s->batch);
    batch_clear(s->batch);
    return r;
}

/* Reserves a zeroed record of `size_bytes` with its header filled; NULL if the file cannot be written. */
static void *new_record(struct snapshot *s, uint16_t kind, size_t size_bytes)
{
    size_bytes = (size_bytes + 7) & ~(size_t)7;
    struct record_header *h = batch_reserve(s->batch, size_bytes);
    if (!h && flush(s) == 0)
        h = batch_reserve(s->batch, size_bytes);
    if (!h)
        return NULL;
    memset(h, 0, size_bytes);
    *h = s->header;
    h->kind = kind;
    h->size_bytes = (uint32_t)size_bytes;
    return h;
}

static int add_mapping(struct snapshot *s, const struct maps_line *line)
{
    size_t path_bytes = maps_path_without_deleted(line->path, line->path_bytes);
    if (path_bytes == 0 || path_bytes >= PATH_MAX_BYTES)
        return 0;
    struct process_mmap *m = new_record(s, RECORD_PROCESS_MMAP, sizeof(*m) + path_bytes + 1);
    if (!m)
        return -EIO;
    m->start = line->start;
    m->size_bytes = line->end - line->start;
    m->file_offset = line->file_offset;
    m->inode = line->inode;
    m->device_major = line->device_major;
    m->device_minor = line->device_minor;
    m->path_bytes = (uint16_t)(path_bytes + 1);
    memcpy(m->path, line->path, path_bytes);
    return 0;
}

static int add_process(struct snapshot *s, uint32_t pid)
{
    _cleanup_close_ int fd = proc_open(pid);
    struct proc_stat stat;
    if (fd < 0 || proc_read_stat(fd, &stat) < 0 || stat.is_kernel_thread)
        return 0;
    s->maps.size = 0;
    if (processes_read_maps(s->processes, fd, pid, &s->maps) < 0 || s->maps.size == 0)
        return 0;
    s->header = (struct record_header){.time_ns = s->time_ns, .pid = pid, .tid = pid};
    struct process_fork *fork = new_record(s, RECORD_PROCESS_FORK, sizeof(*fork));
    if (!fork)
        return -EIO;
    fork->parent_pid = fork->parent_tid = stat.parent_pid;
    struct process_exec *exec = new_record(s, RECORD_PROCESS_EXEC, sizeof(*exec));
    if (!exec)
        return -EIO;
    memcpy(exec->comm, stat.command, sizeof(exec->comm));
    struct cursor text = cursor_make(s->maps.data, s->maps.size);
    struct maps_line line;
    int r = 0;
    while (r == 0 && maps_next_executable(&text, &line))
        r = add_mapping(s, &line);
    return r;
}

int process_snapshot_write(struct processes *processes, struct record_writer *writer, uint64_t time_ns)
{
    _cleanup_(batch_freep) struct batch *batch = NULL;
    int r = batch_new(BATCH_BYTES, signals_check_record, &batch);
    if (r < 0)
        return r;
    DIR *proc = opendir("/proc");
    if (!proc)
        return -errno;
    struct snapshot s = {.processes = processes, .writer = writer, .time_ns = time_ns, .batch = batch};
    for (struct dirent *entry; r == 0 && (entry = readdir(proc));) {
        char *end;
        unsigned long pid = strtoul(entry->d_name, &end, 10);
        if (pid > 0 && *end == '\0')
            r = add_process(&s, (uint32_t)pid);
    }
    closedir(proc);
    buf_clear(&s.maps);
    return r < 0 ? r : flush(&s);
}
