/* What the kernel half of CPU profiling is told of the world when it is loaded: whom to look at and which
 * hierarchy of cgroups names jobs. */
#pragma once

#include "sources/source.h"

#include "../../probes/cpu.h"

/* By what is mounted now. */
enum cpu_cgroups cpu_filters_cgroups(void);

/* The same choice for text of /proc/self/mountinfo. */
enum cpu_cgroups cpu_filters_pick_cgroups(const char *mountinfo);
/* The controller's name, or NULL: cgroup v2. */
const char *cpu_filters_pick_controller(const char *mountinfo);

/* Puts the filters into their maps (descriptors, unused ones below 0); existing children of the processes
 * asked for are put in too. */
int cpu_filters_fill(const struct source_options *options, int followed_fd, int cgroups_fd, int commands_fd);
