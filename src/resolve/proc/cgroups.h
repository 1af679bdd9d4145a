/* Control groups by path and by id: what a process's cgroup says of its container, pod, job and unit, found
 * once a cgroup. On v2, v1 and hybrid hosts. A bounded cache; entries live on while somebody holds them.
 * Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "resolve/proc/identity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup {
    const char *path; /* as under the hierarchy's mount */
    struct identity identity;
    char service[128];   /* the unit's name as a service's, or "" */
    unsigned references; /* private */
};

struct cgroups;

/* `mountinfo`: path, NULL for /proc/self/mountinfo. At most `max_entries` are cached. */
int cgroups_new(const char *mountinfo, size_t max_entries, struct cgroups **ret);
/* How many are cached at most; more than said before are not. */
void cgroups_limit(struct cgroups *c, size_t max_entries);
void cgroups_free(struct cgroups *c);
DEFINE_FREEP(cgroups)

/* By the contents of a /proc/PID/cgroup, held for the caller; NULL when there is no path in it. */
struct cgroup *cgroups_by_text(struct cgroups *c, const char *text, size_t size);

/* By the id of a cgroup of cgroups_id_mount(), as CPU samples have it, held for the caller; NULL when it is
 * gone or cannot be found. */
struct cgroup *cgroups_by_id(struct cgroups *c, uint64_t id);

/* Where the hierarchy is mounted that ids are of; "" when there is none. */
const char *cgroups_id_mount(const struct cgroups *c);

/* No hierarchy of v1 is mounted: the id alone says everything. */
bool cgroups_is_unified(const struct cgroups *c);

struct cgroup *cgroup_ref(struct cgroup *cgroup);
void cgroup_unref(struct cgroup *cgroup);

size_t cgroups_bytes(const struct cgroups *c);

/* The path of the line that tells most: a process has one path for each hierarchy of v1, and which of them a
 * container runtime or a batch system sets differs. Borrowed from `text`; NULL when there is none. */
const char *cgroup_choose_path(const char *text, size_t size, size_t *ret_size);
