/* The unwind tables of the BPF programs: unwind information of objects and mappings of processes, as
 * probes/unwind/unwind.bpf.h searches them. User space adds the tables that samples need and removes tables of ended
 * processes. Part of the shared tables (shared_tables.h); pipeline thread only. */
#pragma once

#include <linux/types.h>

#include "probes/unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interpreter_layouts;
struct unwind_tables;

struct unwind_mapping {
    uint64_t start, end;
    uint64_t file_offset;
    uint32_t object; /* number of an object that was put, or one of the values below */
};
#define UNWIND_OBJECT_UNKNOWN UINT32_MAX       /* the table is being built: copy the stack */
#define UNWIND_OBJECT_NO_CODE (UINT32_MAX - 1) /* no file, hence no table (JIT code): frame pointers only */

/* Adds the unwind table of an object: `value_count` values of UNWIND_VALUE_BYTES each, laid out as in
 * probes/unwind/unwind.h; copied. `*ret_object` identifies it until it is removed. -ENOSPC: exceeds table_bytes or
 * UNWIND_MAX_OBJECTS; the caller counts LOSS_MAP_FULL. */
int unwind_tables_put_object(struct unwind_tables *t, const void *values, size_t value_count, uint32_t *ret_object);
/* Removes an object, asynchronously. Its number may be reused later. */
void unwind_tables_remove_object(struct unwind_tables *t, uint32_t object);

/* Replaces a process's mappings (must be sorted by start and disjoint; copied) and its interpreter layouts (NULL:
 * none). Concurrent samples see either the old or the new state. On failure the old state remains. -ENOSPC: too many
 * mappings or processes; other errors of bpf(2). */
int unwind_tables_put_process(struct unwind_tables *t, uint32_t pid, const struct unwind_mapping *mappings,
                              size_t count, const struct interpreter_layouts *interpreters);
/* Removes a process's mappings; does nothing for an unknown process. */
void unwind_tables_remove_process(struct unwind_tables *t, uint32_t pid);

/* Whether the BPF programs see every object that was put. A thread publishes objects milliseconds after the call. */
bool unwind_tables_is_settled(struct unwind_tables *t);

/* Waits until unwind_tables_is_settled; for tests. -ETIMEDOUT after 10 s. */
int unwind_tables_settle(struct unwind_tables *t);

/* Kernel memory held by objects, mappings and processes; and the limit of objects and mappings. */
size_t unwind_tables_bytes(const struct unwind_tables *t);
size_t unwind_tables_max_bytes(const struct unwind_tables *t);
