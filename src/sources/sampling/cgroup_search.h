/* Finds the cgroups of a container by its ID, of a pod by its UID, or one by its path, in the hierarchy whose ids the
 * kernel half reports. Reads the tree once; bounded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum cgroup_kind { CGROUP_OF_CONTAINER, CGROUP_OF_POD };

struct cgroup_wanted {
    enum cgroup_kind kind;
    const char *text; /* as of the two functions below; one that is none is of nobody */
};

/* Of many in one walk: `found` is called with the place in `wanted` and the id of each of its topmost cgroups. -ENOENT,
 * or what else the tree cannot be read for. */
int cgroup_search(const struct cgroup_wanted *wanted, size_t count,
                  void (*found)(void *context, size_t wanted, uint64_t id), void *context);

/* Ids of the topmost cgroups whose name holds an ID that begins with `container_id` (4 digits or more). Returns how
 * many were put into `ret_ids`, or -errno: -EINVAL: not hexadecimal digits; -ENOENT: no hierarchy is mounted. */
int cgroup_search_container(const char *container_id, uint64_t *ret_ids, size_t max);

/* The same of a pod, by its whole UID, as `kubectl get pod -o yaml` has it in metadata.uid. -EINVAL: it is none. */
int cgroup_search_pod(const char *pod_uid, uint64_t *ret_ids, size_t max);

/* One by its path, as /proc/PID/cgroup has it: "system.slice/nginx.service", "/" for all. -ESRCH: there is none;
 * -EINVAL: it has "..". */
int cgroup_search_path(const char *path, uint64_t *ret_id);

/* Whether a directory's name is a pod's of this UID. */
int cgroup_name_is_of_pod(const char *name, const char *pod_uid);

/* Whether a directory's name is a container's with an ID that begins so: "docker-ID.scope", "cri-containerd-ID.scope",
 * "ID". */
int cgroup_name_matches(const char *name, const char *container_id);
