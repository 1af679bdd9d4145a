/* The context of a record: the current thread's own, or an interrupt's. */
#pragma once

#include "probes/common/context.bpf.h"
#include "probes/common/task.bpf.h"
#include "probes/recorder/recorder.h"

/* The flags of RECORDER_WAKING and RECORDER_READY. `is_direct`: the fields of the current thread can be read directly.
 */
static __always_inline __u8 recorder_context(bool is_direct)
{
    __u32 count, task_flags;
    if (is_direct) {
        struct task_struct *current = bpf_get_current_task_btf();
        count = context_count_direct(current);
        task_flags = current->flags;
    } else {
        struct task_struct *current = (struct task_struct *)bpf_get_current_task();
        count = context_count(current);
        task_flags = BPF_CORE_READ(current, flags);
    }
    __u8 flags = task_flags & PF_KTHREAD ? RECORDER_KERNEL_THREAD : 0;
    if (count == CONTEXT_UNKNOWN)
        return flags;
    return flags | (count & CONTEXT_HARDIRQ ? RECORDER_IN_HARDIRQ : count & CONTEXT_SOFTIRQ ? RECORDER_IN_SOFTIRQ : 0);
}
