/* Filters of the profiling programs (cpu.bpf.c, offcpu.bpf.c), applied before any unwinding. Unused filters are
 * constants, which the verifier removes together with their maps. tables.bpf.c creates the maps and follows children;
 * src/sources/sampling/task_filters.c fills them. */
#pragma once

#include "probes/common/cgroup.bpf.h"
#include "probes/common/task_filter.h"

const volatile struct filter_settings filter = {};

/* Monitored processes and their descendants, with their start time (0: started before the recording). */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, FILTER_MAX_FOLLOWED);
    __type(key, __u32);
    __type(value, __u64);
} followed SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, FILTER_MAX_ENTRIES);
    __type(key, __u64);
    __type(value, __u8);
} cgroups SEC(".maps");

struct command {
    char name[16];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, FILTER_MAX_ENTRIES);
    __type(key, struct command);
    __type(value, __u8);
} commands SEC(".maps");

/* Effective user IDs. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, FILTER_MAX_ENTRIES);
    __type(key, __u32);
    __type(value, __u8);
} users SEC(".maps");

/* Matches the name of the thread or of its process. */
static __always_inline bool command_wanted(struct task_struct *task)
{
    struct command command = {};

    BPF_CORE_READ_STR_INTO(&command.name, task, comm);
    if (bpf_map_lookup_elem(&commands, &command))
        return true;
    __builtin_memset(&command, 0, sizeof(command));
    BPF_CORE_READ_STR_INTO(&command.name, task, group_leader, comm);
    return bpf_map_lookup_elem(&commands, &command);
}

static __always_inline bool user_wanted(struct task_struct *task)
{
    __u32 user = BPF_CORE_READ(task, real_cred, euid.val);

    return bpf_map_lookup_elem(&users, &user);
}

static __always_inline bool task_wanted(struct task_struct *task, __u32 pid)
{
    if (pid == 0 || pid == filter.skip_pid)
        return false;
    if (filter.pids && !bpf_map_lookup_elem(&followed, &pid))
        return false;
    if (filter.cgroups && !cgroup_wanted(cgroup_of(task), &cgroups))
        return false;
    if (filter.users && !user_wanted(task))
        return false;
    return !filter.commands || command_wanted(task);
}
