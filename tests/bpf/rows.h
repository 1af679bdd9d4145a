/* Loads a running process's mappings and unwind tables into the kernel's maps in one call, for tests of the BPF side
 * alone. The agent does this asynchronously. */
#pragma once

#include "sources/tables/unwind_tables.h"

#include <stdint.h>
#include <sys/types.h>

#define LOADED_MAPPINGS_MAX 128

struct loaded_mappings {
    struct unwind_mapping mappings[LOADED_MAPPINGS_MAX];
    size_t count;
};

/* Returns the number of mappings, or -errno, once the BPF side can see them. */
int unwind_load_process(struct unwind_tables *tables, pid_t pid);
/* The same; also returns the mappings. */
int unwind_load_process_mappings(struct unwind_tables *tables, pid_t pid, struct loaded_mappings *ret);
