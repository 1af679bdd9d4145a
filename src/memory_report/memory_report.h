/* The report of `sonde memory`: who holds the memory of the node. Sizes are in bytes. Main thread. */
#pragma once

#include "sources/sampling/cgroup_memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_PROCESSES_MAX 16384
#define MEMORY_CGROUPS_MAX   16384
#define MEMORY_FILES_MAX     65536

#define MEMORY_UNKNOWN       UINT64_MAX

struct memory_process {
    uint32_t pid;
    uint64_t start_ns;
    char command[16];
    char *cgroup; /* path as in /proc/PID/cgroup; NULL: not known */
    uint64_t anonymous, shared, swapped;
    int64_t growth; /* of the three together, in the interval */
};

static inline uint64_t memory_process_bytes(const struct memory_process *p)
{
    return p->anonymous + p->shared + p->swapped;
}

struct memory_cgroup {
    char *path;
    struct cgroup_memory_held held; /* without the cgroups below */
};

struct memory_file {
    char *path;
    uint64_t device, inode, size, cached;
    uint64_t dirty; /* not yet written back; MEMORY_UNKNOWN */
    uint32_t pid;   /* the first process that has it open or mapped; 0: none, the file is in a given folder */
    uint32_t processes;
};

/* In each list, the one with the most bytes comes first: of processes memory_process_bytes, of cgroups anonymous memory
 * and cache, of files what is cached. */
struct memory_report {
    uint64_t interval_ns;
    uint64_t page_cache; /* of the node, with shared memory and tmpfs */
    struct memory_process *processes;
    size_t process_count;
    struct memory_cgroup *cgroups;
    size_t cgroup_count;
    struct memory_files *measured; /* owns `files` */
    struct memory_file *files;
    size_t file_count;
    size_t unmeasured_files; /* found, but not readable or beyond a limit: they have no `cached` */
    bool is_by_mincore;      /* the kernel has no cachestat(2) */
};

/* Reads the memory of the node into `r`, which is zeros: processes twice, `interval_ns` apart, for their growth; files
 * that processes have open or mapped, and those at `paths`, which are files and folders. The caller clears `r`, also
 * after a failure. 0; -errno, logged only if it is of a path. */
int memory_report_gather(struct memory_report *r, uint64_t interval_ns, char *const *paths, size_t path_count);
void memory_report_clear(struct memory_report *r);

/* A process of the report; NULL: it has none with this PID. */
const struct memory_process *memory_report_process(const struct memory_report *r, uint32_t pid);

/* The part of the page cache that the files of the report have. */
uint64_t memory_report_cached(const struct memory_report *r);
