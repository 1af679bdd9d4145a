/* The paths of cgroups by their IDs, for the labels of metrics. The tree is walked only when an ID has no path yet, and
 * not more often than every few seconds. Not thread-safe; owned by its source. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CGROUP_NAMES_OTHER 0 /* in place of an ID: cgroups that did not fit a table */

struct cgroup_name {
    uint64_t id;
    char *path;
};

/* Initially all zeros except `is_v2`: no names are read yet. */
struct cgroup_names {
    bool is_v2;               /* in the hierarchy of cgroup v2, as of sockets; else in the one that identifies jobs */
    struct cgroup_name *list; /* sorted by ID */
    size_t count;
    uint64_t read_ns; /* CLOCK_MONOTONIC; 0: never */
};

void cgroup_names_clear(struct cgroup_names *n);

/* Reads the paths again if one of `ids` has none and the last walk was a while ago. Returns true if the paths are
 * current, so that a cgroup without one is gone. */
bool cgroup_names_refresh(struct cgroup_names *n, const uint64_t *ids, size_t count, uint64_t now_ns);

/* The path as in /proc/PID/cgroup, "other" for CGROUP_NAMES_OTHER; valid until the next refresh. NULL: not known, or
 * gone. */
const char *cgroup_names_find(const struct cgroup_names *n, uint64_t id);
