/* Who the targets (targets.h) are on this machine now, kept in the table by which the kernel half finds them. Processes are those that had
 * their number at the beginning; users are looked up once; cgroups, of paths, containers and pods, are looked for every few seconds, for they come
 * and go. Owned by the source of CPU samples, or, where there is none, of waits; pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "sources/sampling/targets.h"

#include <stdbool.h>

struct target_table;

/* The descriptors are of the maps of these names, borrowed; -1 for the second: nothing is counted. That a process, a user or a cgroup is not to be found is no error. */
int target_table_new(const struct targets *targets, int target_keys_fd, int target_counts_fd, struct target_table **ret);
void target_table_free(struct target_table *t);
DEFINE_FREEP(target_table)

/* Looks who they are, if it is time to. */
void target_table_follow(struct target_table *t, uint64_t now_ns);

#define TARGET_PODS_MAX      256 /* that targets by names and labels may mean together: more than a node has */
#define TARGET_POD_UID_BYTES 40

struct target_pod {
    uint32_t target;
    char uid[TARGET_POD_UID_BYTES];
};

/* Whom TARGET_POD_NAME and TARGET_POD_LABEL mean from now on, which only the container runtime knows; looks at
 * once who they are, if they are others than before. All bytes of `pods` are set. */
void target_table_set_pods(struct target_table *t, const struct target_pod *pods, size_t count);

struct target_figures {
    bool found;              /* on this machine, as of the last look; of a command, and of who is none, always */
    uint64_t ticks, samples; /* of the clock that met its threads, and of which a sample was taken */
};

/* Of the target of this number; TARGETS_MAX: of all who are none. */
struct target_figures target_table_figures(const struct target_table *t, uint32_t number);

/* Cgroups and the like that found no room, at the worst look. */
uint64_t target_table_left_out(const struct target_table *t);

/* Bits of enum target_key_kind that these may need. */
uint32_t target_table_kinds(const struct targets *targets);
