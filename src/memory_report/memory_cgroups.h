/* The memory of all cgroups, each without those below it. */
#pragma once

#include "memory_report/memory_report.h"

/* Reads all cgroups, by path; at most MEMORY_CGROUPS_MAX. The caller frees the list with memory_cgroups_free. 0, or
 * -errno: -ENOENT where there is no memory controller. */
int memory_cgroups_read(struct memory_cgroup **ret, size_t *ret_count);
void memory_cgroups_free(struct memory_cgroup *list, size_t count);
