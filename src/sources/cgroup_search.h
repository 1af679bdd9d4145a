/* Finds the cgroups of a container by its ID, in the hierarchy whose ids the kernel half reports. Reads the tree once; bounded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Ids of the topmost cgroups whose name holds an ID that begins with `container_id` (4 digits or more). Returns how many were put
 * into `ret_ids`, or -errno: -EINVAL: not hexadecimal digits; -ENOENT: no hierarchy is mounted. */
int cgroup_search_container(const char *container_id, uint64_t *ret_ids, size_t max);

/* Whether a directory's name is a container's with an ID that begins so: "docker-ID.scope", "cri-containerd-ID.scope", "ID". */
int cgroup_name_matches(const char *name, const char *container_id);
