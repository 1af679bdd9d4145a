/* The kernel half's unwinding tables: rows of objects and mappings of processes, as probes/unwind/unwind.bpf.h searches
 * them. User space puts in what a sample asked for and takes out what is gone. Owned by the cpu source, or by the
 * request or off-cpu source where that is alone; called from the pipeline's thread. */
#pragma once

#include <linux/types.h>

#include "probes/unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interpreter_layouts;
struct unwind_tables;

/* Belongs to the cpu source (borrowed). */
struct unwind_tables *cpu_source_unwind_tables(void *cpu_source);
/* Its kernel half tells of this code object again when it meets it (RECORD_PYTHON_CODE). */
void cpu_source_reemit(void *cpu_source, uint32_t pid, uint64_t code, uint32_t check);
void off_cpu_source_reemit(void *off_cpu_source, uint32_t pid, uint64_t code, uint32_t check); /* likewise */
/* The request source's own, if it was given no others; NULL: it has none. */
struct unwind_tables *request_source_unwind_tables(void *request_source);
struct unwind_tables *off_cpu_source_unwind_tables(void *off_cpu_source); /* likewise */

struct unwind_mapping {
    uint64_t start, end;
    uint64_t file_offset;
    uint32_t object; /* number of an object that was put, or UNWIND_OBJECT_UNKNOWN */
};
#define UNWIND_OBJECT_UNKNOWN UINT32_MAX       /* rows are being built: copy the stack */
#define UNWIND_OBJECT_NO_CODE (UINT32_MAX - 1) /* no file, no rows (JIT): frame pointers only */

/* Puts an object's table: `values` of UNWIND_VALUE_BYTES each, laid out as probes/unwind/unwind.h says. -ENOSPC when it
 * would pass table_bytes or there are too many objects; the caller counts LOSS_MAP_FULL. `*ret_object` names it until
 * it is removed. */
int unwind_tables_put_object(struct unwind_tables *t, const void *values, size_t value_count, uint32_t *ret_object);
void unwind_tables_remove_object(struct unwind_tables *t, uint32_t object);

/* Replaces a process's mappings, sorted by start and disjoint, and what is known of its interpreters (NULL: it has
 * none). A sample taken meanwhile sees the old or the new ones, whole. */
int unwind_tables_put_process(struct unwind_tables *t, uint32_t pid, const struct unwind_mapping *mappings,
                              size_t count, const struct interpreter_layouts *interpreters);
void unwind_tables_remove_process(struct unwind_tables *t, uint32_t pid);

/* Whether the BPF programs see every object that was put: a thread publishes them, milliseconds after each call. */
bool unwind_tables_is_settled(struct unwind_tables *t);

/* Waits until they do: for tests. */
int unwind_tables_settle(struct unwind_tables *t);

size_t unwind_tables_bytes(const struct unwind_tables *t);
