/* The user stack of a thread inside the kernel, with its interpreter's frames. For offcpu.bpf.c and waits.bpf.c. */
#pragma once

#include "probes/interpreter/interpreters.bpf.h"

/* Walks the user stack of the current task, behind the kernel's frames in the CPU's scratch memory. Where unwind tables
 * are missing it is copied; counts in `refused` if it is not, because it may not be or the ring is half full. */
static __always_inline int walk_user(struct unwind_scratch *scratch, struct task_struct *task, bool may_copy,
                                     __u64 *refused)
{
    struct unwind_walk *w = &scratch->walk;
    /* Stored behind the kernel frames until the walk writes there. */
    struct user_registers *registers = (struct user_registers *)(scratch->data + STACK_MAX_KERNEL_FRAMES);
    if ((BPF_CORE_READ(task, flags) & PF_KTHREAD) || !BPF_CORE_READ(task, mm) || !kernel_registers(task, registers) ||
        !user_mode(registers))
        return UNWIND_END_NO_USER;
    if (!walk_begin(w, registers))
        return UNWIND_END_UNSUPPORTED;
    w->interrupted = 1;
    interpreters_walk(scratch, task, bpf_get_current_pid_tgid(), stack_record_of(scratch)->h.time_ns);
    int end = unwind_user();
    interpreters_walked(scratch, bpf_get_current_pid_tgid());
    if (!end_is_resumable(end))
        return end;
    if (!may_copy || bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 2)
        ++*refused;
    else
        copy_stack(task);
    return end;
}
