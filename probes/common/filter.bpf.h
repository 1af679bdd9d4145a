/* Filters of the profiling programs (cpu.bpf.c, offcpu.bpf.c), applied before any unwinding. Unused filters are
 * constants, which the verifier removes together with their maps; src/sources/sampling/cpu_filters.c fills the maps. */
#pragma once

#include "probes/common/cgroup.bpf.h"

const volatile __u32 skip_pid = 0;
const volatile bool filter_pids = false;
const volatile bool filter_cgroups = false;
const volatile bool filter_commands = false;
const volatile bool filter_users = false;

__u64 followed_full = 0; /* children of monitored processes that did not fit the map */

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
    if (pid == 0 || pid == skip_pid)
        return false;
    if (filter_pids && !bpf_map_lookup_elem(&followed, &pid))
        return false;
    if (filter_cgroups && !cgroup_wanted(cgroup_of(task), &cgroups))
        return false;
    if (filter_users && !user_wanted(task))
        return false;
    return !filter_commands || command_wanted(task);
}

struct raw_tracepoint_context {
    __u64 args[2];
};

/* Monitors children of monitored processes. Loaded only with a PID filter. */
SEC("raw_tp/sched_process_fork")
int follow_fork(struct raw_tracepoint_context *ctx)
{
    struct task_struct *parent_task = (struct task_struct *)ctx->args[0];
    struct task_struct *child_task = (struct task_struct *)ctx->args[1];
    __u32 parent = BPF_CORE_READ(parent_task, tgid), child = BPF_CORE_READ(child_task, tgid);
    __u64 start_ns = BPF_CORE_READ(child_task, start_time);

    if (child == parent || !bpf_map_lookup_elem(&followed, &parent))
        return 0;
    if (bpf_map_update_elem(&followed, &child, &start_ns, BPF_ANY))
        __sync_fetch_and_add(&followed_full, 1);
    return 0;
}

/* The last thread of a process was freed. Its ID may already belong to another process: tasks are freed some time
 * after their IDs. */
SEC("raw_tp/sched_process_free")
int follow_free(struct raw_tracepoint_context *ctx)
{
    struct task_struct *task = (struct task_struct *)ctx->args[0];
    __u32 tgid = BPF_CORE_READ(task, tgid);
    __u64 *start_ns;

    if (BPF_CORE_READ(task, pid) != tgid)
        return 0;
    start_ns = bpf_map_lookup_elem(&followed, &tgid);
    if (start_ns && (*start_ns == 0 || *start_ns == BPF_CORE_READ(task, start_time)))
        bpf_map_delete_elem(&followed, &tgid);
    return 0;
}
