/* What the kernel half of CPU profiling is told of the world when it is loaded: whom to look at and which
 * hierarchy of cgroups names jobs. */
#pragma once

#include "sources/source.h"

#include "probes/cpu.h"

/* By what is mounted now. */
enum cpu_cgroups cpu_filters_cgroups(void);

/* The same choice for text of /proc/self/mountinfo. */
enum cpu_cgroups cpu_filters_pick_cgroups(const char *mountinfo);
/* The controller's name, or NULL: cgroup v2. */
const char *cpu_filters_pick_controller(const char *mountinfo);

/* Puts the filters into their maps (descriptors, unused ones below 0); existing children of the processes
 * asked for are put in too. */
int cpu_filters_fill(const struct source_options *options, int followed_fd, int cgroups_fd, int commands_fd,
                     int users_fd);

/* Makes these the cgroups in the map. One that was in it stays there meanwhile. -ENOSPC: there are more than it holds.
 */
int cpu_filters_set_cgroups(int cgroups_fd, const uint64_t *ids, size_t count);
/* Whether the kernel half follows this process. */
bool cpu_filters_is_followed(int followed_fd, uint32_t pid);
/* The first process that the kernel half follows, or the next one behind `*pid`. False: there are no more. */
bool cpu_filters_next_followed(int followed_fd, bool first, uint32_t *pid);
