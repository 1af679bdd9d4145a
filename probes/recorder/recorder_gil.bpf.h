/* Sums up how long the threads of a Python program wait for its GIL, until they are woken. A wait begins where a thread
 * leaves its CPU for the futex of the GIL. Its length is known when the thread next leaves its CPU: the time between,
 * less the time that the thread ran or was runnable, by the scheduler's accounts. So a switch to a thread costs
 * nothing.
 *
 * Every wait is counted. Time that the hypervisor takes while the thread runs after its wait counts as waiting, where
 * the kernel does not account it to the thread. */
#pragma once

#include "probes/common/task.bpf.h"
#include "probes/recorder/recorder_tasks.bpf.h"

static __always_inline __u32 gil_switches(struct task_struct *task)
{
    return BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
}

/* Only differences between two switches of the thread are meaningful. */
static __always_inline __u64 gil_waited_ns(struct task_struct *task, __u64 now_ns)
{
    return now_ns - task_runtime(task) - task_queued(task);
}

/* The current thread, whose state is `known`, leaves its CPU for the futex of the GIL. */
static __noinline void gil_begin_wait(struct recorder_task *known, __u64 now_ns)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    known->gil_from_ns = gil_waited_ns(task, now_ns);
    known->gil_switches = gil_switches(task);
}

/* The current thread leaves its CPU. If it has left it since the wait began (the recorder was detached, or the thread
 * is another one with the same number), the length of the wait is not known. */
static __noinline void gil_end_wait(struct recorder_task *known, __u64 now_ns)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    const __u64 zero = 0, waited_ns = gil_waited_ns(task, now_ns) - known->gil_from_ns;
    const __u32 pid = bpf_get_current_pid_tgid() >> 32, switches = gil_switches(task) - known->gil_switches;
    known->gil_from_ns = 0;
    if (switches != 1 || (__s64)waited_ns <= 0)
        return;
    __u64 *sum = bpf_map_lookup_elem(&recorder_gil_waits, &pid);
    if (!sum) {
        bpf_map_update_elem(&recorder_gil_waits, &pid, &zero, BPF_NOEXIST);
        sum = bpf_map_lookup_elem(&recorder_gil_waits, &pid);
    }
    if (sum)
        __sync_fetch_and_add(sum, waited_ns);
}
