/* The cgroup of a task, in the hierarchy that identifies jobs on this host (enum cgroup_hierarchy); every cgroup ID in
 * a record refers to it. User space selects the hierarchy when it loads the program
 * (src/sources/sampling/task_filters.h). */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/task_filter.h"

const volatile int cgroup_hierarchy = CGROUP_HIERARCHY_V2;

#define CONTROLLER_INDEX(name)                                                                                         \
    (bpf_core_enum_value_exists(enum cgroup_subsys_id, name) ? bpf_core_enum_value(enum cgroup_subsys_id, name) : -1)

/* Index of the controller in a task's css_set; -1: cgroup v2 is used. */
static __always_inline int controller_index(void)
{
    if (cgroup_hierarchy == CGROUP_HIERARCHY_MEMORY)
        return CONTROLLER_INDEX(memory_cgrp_id);
    if (cgroup_hierarchy == CGROUP_HIERARCHY_CPUACCT)
        return CONTROLLER_INDEX(cpuacct_cgrp_id);
    if (cgroup_hierarchy == CGROUP_HIERARCHY_CPU)
        return CONTROLLER_INDEX(cpu_cgrp_id);
    if (cgroup_hierarchy == CGROUP_HIERARCHY_PIDS)
        return CONTROLLER_INDEX(pids_cgrp_id);
    if (cgroup_hierarchy == CGROUP_HIERARCHY_DEVICES)
        return CONTROLLER_INDEX(devices_cgrp_id);
    return -1;
}

static __always_inline struct cgroup *cgroup_of(struct task_struct *task)
{
    struct css_set *set = BPF_CORE_READ(task, cgroups);
    struct cgroup_subsys_state *state = NULL;
    int index = controller_index();

    if (index < 0)
        return BPF_CORE_READ(set, dfl_cgrp);
    bpf_probe_read_kernel(&state, sizeof(state), &set->subsys[0] + index);
    return BPF_CORE_READ(state, cgroup);
}

static __always_inline __u64 cgroup_id(struct cgroup *cgroup)
{
    return BPF_CORE_READ(cgroup, kn, id);
}

#define CGROUP_LEVELS_MAX 16

static __always_inline struct cgroup *cgroup_parent(struct cgroup *cgroup)
{
    struct cgroup_subsys_state *parent = BPF_CORE_READ(cgroup, self.parent);

    return parent ? BPF_CORE_READ(parent, cgroup) : NULL;
}

/* A cgroup filter includes all descendants. */
static __always_inline bool cgroup_wanted(struct cgroup *cgroup, void *wanted_ids)
{
    for (int level = 0; level < CGROUP_LEVELS_MAX && cgroup; level++) {
        __u64 id = cgroup_id(cgroup);

        if (bpf_map_lookup_elem(wanted_ids, &id))
            return true;
        cgroup = cgroup_parent(cgroup);
    }
    return false;
}
