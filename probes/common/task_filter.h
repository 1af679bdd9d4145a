/* What BPF programs and user space share of the filters on tasks (task_filter.bpf.h, cgroup.bpf.h). */
#pragma once

#include "probes/common/record.h"

/* The cgroup hierarchy that identifies jobs: the hierarchy of the first controller in this order that is mounted as
 * cgroup v1, else cgroup v2. */
enum cgroup_hierarchy {
    CGROUP_HIERARCHY_V2,
    CGROUP_HIERARCHY_MEMORY,
    CGROUP_HIERARCHY_CPUACCT,
    CGROUP_HIERARCHY_CPU,
    CGROUP_HIERARCHY_PIDS,
    CGROUP_HIERARCHY_DEVICES,
};

#define FILTER_MAX_FOLLOWED 10240 /* processes, with their children */
#define FILTER_MAX_ENTRIES  64    /* of each other filter: cgroups, commands, users */

/* Which filters a program applies. */
struct filter_settings {
    __u32 skip_pid; /* 0: none */
    __u8 pids, cgroups, commands, users;
};
