/* The memory of all processes, from /proc. */
#pragma once

#include "memory_report/memory_report.h"

/* Reads all processes that have memory of their own, by `pid`; at most MEMORY_PROCESSES_MAX. The caller frees the list
 * with memory_processes_free. 0 or -errno. */
int memory_processes_read(struct memory_process **ret, size_t *ret_count);
void memory_processes_free(struct memory_process *list, size_t count);

/* Sets `growth` from an earlier list. A process that the earlier list lacks has grown by all that it has. */
void memory_processes_compare(struct memory_process *list, size_t count, const struct memory_process *before,
                              size_t before_count);
