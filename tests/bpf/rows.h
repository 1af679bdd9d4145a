/* Puts a running process's mappings and rows into the kernel's tables, as the agent does in the end, in one call: for tests of
 * the kernel half alone. */
#pragma once

#include "sources/unwind_tables.h"

#include <stdint.h>
#include <sys/types.h>

#define ROWS_MAPPINGS_MAX 128

/* How many mappings were put, or -errno. Returns when the kernel half can see them. */
int rows_put_process(struct unwind_tables *tables, pid_t pid);
