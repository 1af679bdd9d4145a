/* Fills the filter maps of the BPF programs and chooses the cgroup hierarchy that identifies jobs. */
#pragma once

#include "model/task_filter.h"

#include <linux/types.h>

#include "probes/common/task_filter.h"

/* Chooses by the hierarchies mounted now. */
enum cgroup_hierarchy task_filters_cgroups(void);

/* Likewise for the given text of /proc/self/mountinfo. */
enum cgroup_hierarchy task_filters_pick_cgroups(const char *mountinfo);
/* The chosen controller's name, or NULL for cgroup v2. */
const char *task_filters_pick_controller(const char *mountinfo);

/* What the BPF programs must apply for this filter. */
struct filter_settings task_filters_settings(const struct task_filter *filter);

/* Writes the filters to their maps (borrowed descriptors; negative where a filter is unused). Existing descendants of
 * the processes in filter->pids are added, too. 0, or the first error: the maps are then incomplete. */
int task_filters_fill(const struct task_filter *filter, int followed_fd, int cgroups_fd, int commands_fd, int users_fd);

/* Replaces the cgroups in the map. A cgroup that stays is never missing meanwhile. -ENOSPC: more than the map holds;
 * some of `ids` are then missing. */
int task_filters_set_cgroups(int cgroups_fd, const uint64_t *ids, size_t count);
/* Whether the BPF programs monitor this process (it is in the map of `followed_fd`). */
bool task_filters_is_followed(int followed_fd, uint32_t pid);
/* Iterates over the monitored processes: with `first` the first one, else the one after `*pid`. False: no more. */
bool task_filters_next_followed(int followed_fd, bool first, uint32_t *pid);
