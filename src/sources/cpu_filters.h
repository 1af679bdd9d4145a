/* What the kernel half of CPU profiling is told of the world when it is loaded: whom to look at and which hierarchy of cgroups
 * names jobs. */
#pragma once

#include "sources/source.h"

/* The index of the first v1 controller that is mounted of memory, cpuacct, cpu, pids, devices in the running kernel, or -1: names
 * come from cgroup v2. */
int cpu_filters_cgroup_controller(void);

/* The same choice for text of /proc/self/mountinfo: the controller's name, or NULL. */
const char *cpu_filters_pick_controller(const char *mountinfo);

/* Puts the filters into their maps (descriptors, unused ones below 0); existing children of the processes asked for are put in
 * too. */
int cpu_filters_fill(const struct source_options *options, int followed_fd, int cgroups_fd, int commands_fd);
