/* Control groups by path and by ID: the container, pod, job and unit that a process's cgroup names, parsed once per
 * cgroup. Works on v2, v1 and hybrid hosts. A bounded cache; an evicted entry stays valid while it is referenced.
 * Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "resolve/proc/identity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup {
    const char *path; /* relative to the hierarchy's mount */
    struct identity identity;
    char service[128];   /* service name derived from the unit, or "" */
    unsigned references; /* private */
};

struct cgroups;

/* `mountinfo`: path, NULL for /proc/self/mountinfo. At most `max_entries` are cached. Returns 0 or -ENOMEM. */
int cgroups_new(const char *mountinfo, size_t max_entries, struct cgroups **ret);
/* Lowers the maximum number of cached entries; it is never raised. */
void cgroups_limit(struct cgroups *c, size_t max_entries);
/* Cgroups that are still referenced stay valid. */
void cgroups_free(struct cgroups *c);
DEFINE_FREEP(cgroups)

/* By the contents of a /proc/PID/cgroup. Returns a reference; NULL when the text has no path. */
struct cgroup *cgroups_by_text(struct cgroups *c, const char *text, size_t size);

/* By the ID of a cgroup of cgroups_id_mount(), as in CPU samples. Returns a reference; NULL when the cgroup was
 * removed or cannot be found. */
struct cgroup *cgroups_by_id(struct cgroups *c, uint64_t id);

/* Mount point of the hierarchy that the IDs belong to; "" if unknown. */
const char *cgroups_id_mount(const struct cgroups *c);

/* True when no v1 hierarchy is mounted: the ID alone then identifies the cgroup. */
bool cgroups_is_unified(const struct cgroups *c);

/* Returns `cgroup`; both accept NULL. Every reference is released once; the last one frees the cgroup. */
struct cgroup *cgroup_ref(struct cgroup *cgroup);
void cgroup_unref(struct cgroup *cgroup);

/* Memory of the cache, without cgroups that only others reference. */
size_t cgroups_bytes(const struct cgroups *c);

/* The path of the most informative line: on v1 a process has one path per hierarchy, and container runtimes and
 * batch systems set different ones. Borrowed from `text`; NULL if no line has a path. */
const char *cgroup_choose_path(const char *text, size_t size, size_t *ret_size);
