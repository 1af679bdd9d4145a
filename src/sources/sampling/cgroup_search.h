/* Finds the cgroups of a container by its ID, of a pod by its UID, one cgroup by its path, or all, in the hierarchy
 * whose IDs the BPF programs report. Reads the tree once; the number of directories is limited. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum cgroup_kind { CGROUP_OF_CONTAINER, CGROUP_OF_POD };

struct cgroup_wanted {
    enum cgroup_kind kind;
    const char *text; /* a container ID or pod UID, as for the two functions below; an invalid one matches nothing */
};

/* Finds the cgroups of several containers and pods in one walk: calls `found` with the index in `wanted` and the ID of
 * each topmost cgroup; finding none is not an error. -ENOENT: no hierarchy is mounted; or the errno of reading the
 * tree. */
int cgroup_search(const struct cgroup_wanted *wanted, size_t count,
                  void (*found)(void *context, size_t wanted, uint64_t id), void *context);

/* Writes the IDs of the topmost cgroups whose name contains an ID that begins with `container_id` (4 digits or more).
 * Returns how many were written to `ret_ids`, or -errno: -EINVAL: not hexadecimal digits; -ENOENT: no hierarchy is
 * mounted. */
int cgroup_search_container(const char *container_id, uint64_t *ret_ids, size_t max);

/* Likewise for a pod, by its full UID as in metadata.uid of `kubectl get pod -o yaml`. -EINVAL: not a UID. */
int cgroup_search_pod(const char *pod_uid, uint64_t *ret_ids, size_t max);

/* Finds one cgroup by its path as in /proc/PID/cgroup: "system.slice/nginx.service", or "/" for the root. -ESRCH: no
 * such cgroup; -EINVAL: the path contains "..". */
int cgroup_search_path(const char *path, uint64_t *ret_id);

/* A descriptor of the directory of the hierarchy's root, for looking at cgroups below it; the caller closes it.
 * -ENOENT: no hierarchy is mounted; or the errno of opening it. */
int cgroup_search_open(void);
/* Likewise of the hierarchy that has this controller of cgroup v1, else of cgroup v2. */
int cgroup_search_open_controller(const char *controller);

/* Calls `found` for every cgroup, with its path as in /proc/PID/cgroup ("/" for the root; valid during the call) and
 * its ID. -ENOENT: no hierarchy is mounted; or the errno of reading the tree. */
int cgroup_search_each(void (*found)(void *context, const char *path, uint64_t id), void *context);
/* Likewise in the hierarchy of cgroup v2, where the kernel files sockets, whichever one identifies jobs here. */
int cgroup_search_each_v2(void (*found)(void *context, const char *path, uint64_t id), void *context);

/* Whether a directory's name names the pod with this UID. */
int cgroup_name_is_of_pod(const char *name, const char *pod_uid);

/* Whether a directory's name names a container whose ID begins with `container_id`: "docker-ID.scope",
 * "cri-containerd-ID.scope", "ID". */
int cgroup_name_matches(const char *name, const char *container_id);
