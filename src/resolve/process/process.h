/* A process at a moment, with the code that it maps: what processes.h finds. Plain data, borrowed from the table. */
#pragma once

#include "resolve/object/object.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process_mapping {
    uint64_t start, end, file_offset;
    struct object *object; /* NULL: anonymous code (JIT) */
    const char *path;      /* interned (paths.h), as this process names the file; NULL: no object */
};

struct process {
    uint32_t pid;
    uint64_t start_time_ns;                 /* distinguishes two processes with the same PID */
    uint64_t exec_time_ns;                  /* start of its program; 0: before monitoring began */
    uint64_t mapping_version;               /* increases whenever mappings change (exec, mmap) */
    const struct process_mapping *mappings; /* sorted by start, disjoint; executable ones only */
    size_t mapping_count;
    bool exited;
};

/* The mapping that contains `address`, or NULL. */
const struct process_mapping *process_mapping_find(const struct process *process, uint64_t address);
