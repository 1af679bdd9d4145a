/* Puts a running process's mappings and rows into the kernel's tables, as the agent does in the end, in one
 * call: for tests of the BPF side alone. */
#pragma once

#include "sources/tables/unwind_tables.h"

#include <stdint.h>
#include <sys/types.h>

#define ROWS_MAPPINGS_MAX 128

struct rows {
    struct unwind_mapping mappings[ROWS_MAPPINGS_MAX];
    size_t count;
};

/* How many mappings were put, or -errno. Returns when the BPF side can see them. */
int rows_put_process(struct unwind_tables *tables, pid_t pid);
/* The same, and tells what was put. */
int rows_put_process_and_tell(struct unwind_tables *tables, pid_t pid, struct rows *ret);
