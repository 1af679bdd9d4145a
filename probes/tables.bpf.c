/* The maps that the BPF programs of several signals share: filters, sampling rules, unwind tables, contexts, code that
 * was already written, links, answered sockets, the flight recorder. src/sources/tables/shared_tables.c loads this
 * object once and passes its maps to the objects of all signals, which declare them by the same headers.
 *
 * Its programs keep the set of monitored processes: children of monitored processes are monitored, too. */
#include "probes/common/vmlinux.h"

#include "probes/common/sampling_rule_tables.bpf.h"
#include "probes/common/task_filter.bpf.h"
#include "probes/context/answered_sockets.bpf.h"
#include "probes/context/context_tables.bpf.h"
#include "probes/context/thread_link.bpf.h"
#include "probes/interpreter/emitted_codes.bpf.h"
#include "probes/recorder/recorder.bpf.h"
#include "probes/recorder/recorder_tasks.bpf.h"
#include "probes/unwind/unwind_tables.bpf.h"

char LICENSE[] SEC("license") = "GPL";

__u64 followed_full = 0; /* children of monitored processes that did not fit the map */

/* Never attached. Before Linux 6.1 the programs of perf events may use preallocated maps only: whether this one loads
 * decides how the unwind tables are created. */
SEC("perf_event")
int test_allocation(void *ctx)
{
    __u32 pid = bpf_get_current_pid_tgid() >> 32;

    return bpf_map_lookup_elem(&unwind_processes, &pid) != NULL;
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
