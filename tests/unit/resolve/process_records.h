/* Process lifecycle records for tests of the process table. PIDs from UNUSED_PID on do not exist on this machine (they
 * are larger than any pid_max), so /proc has nothing about them. Header only: each test is a program of its own. */
#pragma once

#include "resolve/process/processes.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#define UNUSED_PID 0x40000000u

struct fixture {
    struct processes *p;
    uint64_t time_ns;
};

static inline int setup(void **state)
{
    static struct fixture f;
    f = (struct fixture){.time_ns = clock_monotonic_ns()};
    *state = &f;
    return processes_new(8 << 20, &f.p);
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    processes_free(f->p);
    return 0;
}

static inline struct record_header header(struct fixture *f, unsigned kind, size_t size, uint32_t pid, uint32_t tid)
{
    return (struct record_header){.size_bytes = (uint32_t)((size + 7) & ~7ULL),
                                  .kind = (uint16_t)kind,
                                  .time_ns = ++f->time_ns,
                                  .pid = pid,
                                  .tid = tid};
}

static inline void record_fork(struct fixture *f, uint32_t parent, uint32_t pid, uint32_t tid)
{
    struct process_fork r = {
        .h = header(f, RECORD_PROCESS_FORK, sizeof(r), pid, tid), .parent_pid = parent, .parent_tid = parent};
    processes_apply(f->p, &r.h);
}

static inline void record_exec(struct fixture *f, uint32_t pid, const char *comm)
{
    struct process_exec r = {.h = header(f, RECORD_PROCESS_EXEC, sizeof(r), pid, pid)};
    memcpy(r.comm, comm, strlen(comm));
    processes_apply(f->p, &r.h);
}

static inline void record_comm(struct fixture *f, uint32_t pid, uint32_t tid, const char *comm)
{
    struct process_comm r = {.h = header(f, RECORD_PROCESS_COMM, sizeof(r), pid, tid)};
    memcpy(r.comm, comm, strlen(comm));
    processes_apply(f->p, &r.h);
}

static inline void record_exit(struct fixture *f, uint32_t pid, uint32_t tid)
{
    struct process_exit r = {.h = header(f, RECORD_PROCESS_EXIT, sizeof(r), pid, tid)};
    processes_apply(f->p, &r.h);
}

static inline void record_lost(struct fixture *f)
{
    struct process_lost r = {.h = header(f, RECORD_PROCESS_LOST, sizeof(r), 0, 0), .events = 1};
    processes_apply(f->p, &r.h);
}

union mmap_record {
    struct process_mmap r;
    char room[sizeof(struct process_mmap) + 256];
};

static inline void make_mmap(struct fixture *f, union mmap_record *m, uint32_t pid, uint64_t start, uint64_t end,
                             uint64_t offset, const char *path)
{
    struct stat st;
    *m = (union mmap_record){.r = {.start = start, .size_bytes = end - start, .file_offset = offset}};
    m->r.path_bytes = (uint16_t)(strlen(path) + 1);
    memcpy(m->r.path, path, m->r.path_bytes);
    if (path[0] == '/' && stat(path, &st) == 0) {
        m->r.inode = st.st_ino;
        m->r.device_major = major(st.st_dev);
        m->r.device_minor = minor(st.st_dev);
    }
    m->r.h = header(f, RECORD_PROCESS_MMAP, sizeof(m->r) + m->r.path_bytes, pid, pid);
}

static inline void record_mmap(struct fixture *f, uint32_t pid, uint64_t start, uint64_t end, uint64_t offset,
                               const char *path)
{
    union mmap_record m;
    make_mmap(f, &m, pid, start, end, offset, path);
    processes_apply(f->p, &m.r.h);
}

static inline bool is_foreseen(struct fixture *f, uint32_t pid, const char *path)
{
    union mmap_record m;
    make_mmap(f, &m, pid, 0x600000, 0x700000, 0, path);
    return processes_announce_mmap(f->p, &m.r.h);
}

/* The mappings as text: "start-end+offset name" each. */
static inline const char *mappings_text(const struct process *process)
{
    static char text[1024];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < process->mapping_count; i++) {
        const struct process_mapping *m = &process->mappings[i];
        const char *slash = m->path ? strrchr(m->path, '/') : NULL;
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%lx-%lx+%lx %s", i ? ", " : "", (unsigned long)m->start,
                              (unsigned long)m->end, (unsigned long)m->file_offset,
                              slash     ? slash + 1
                              : m->path ? m->path
                                        : "-");
    }
    return text;
}

#define assert_mappings(f, pid, expected)                                                                              \
    do {                                                                                                               \
        const struct process *process_ = processes_find((f)->p, pid, 0);                                               \
        assert_non_null(process_);                                                                                     \
        assert_string_equal(mappings_text(process_), expected);                                                        \
    } while (0)
