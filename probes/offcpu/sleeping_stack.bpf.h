/* The kernel and user stacks of a task that is off its CPU, for task iterators that may sleep (Linux 5.18): copies the
 * user stack from the process's memory, for unwinding in user space.
 *
 * Only anonymous memory is read: a file may be on a server that never responds. (The kernel itself does not wait for a
 * userfaultfd here.) Pages may have to be swapped in. The caller compares task_switches before and after: a thread that
 * ran meanwhile has no stack. */
#pragma once

#define UNWIND_MAX_FRAMES    1 /* the leaf: the rest is unwound from the copy */
#define UNWIND_FRAMES_BEFORE STACK_MAX_KERNEL_FRAMES

#include "probes/common/task.bpf.h"
#include "probes/offcpu/task_stack.bpf.h"

/* Reads how often the thread has left its CPU. The order matters: the kernel counts a switch before the thread leaves.
 */
static __always_inline bool is_off_cpu(struct task_struct *task, __u64 *ret_switches)
{
    if (BPF_CORE_READ(task, on_cpu))
        return false;
    *ret_switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
    return true;
}

/* ---- user memory ---- */

struct memory {
    __u64 end; /* 0: must not be read */
};

/* Memory of a file is not stack memory. */
static long check_mapping(struct task_struct *task, struct vm_area_struct *vma, struct memory *memory)
{
    if (!vma->vm_ops)
        memory->end = vma->vm_end;
    return 0;
}

static __always_inline __u64 lower(__u64 end, __u64 from, __u64 limit)
{
    return from < limit && limit < end ? limit : end;
}

/* Where the stack at `from` ends, or the part of it that may be copied; the C library's thread data lies above. 0:
 * must not be read. */
static __always_inline __u64 stack_end(struct task_struct *task, __u64 from)
{
    struct memory memory = {};
    if (bpf_find_vma(task, from, check_mapping, &memory, 0) || !memory.end)
        return 0;
    __u64 end = lower(from + STACK_COPY_BYTES, from, memory.end);
    end = lower(end, from, (task_thread_pointer(task) + 7) & ~7ULL);
    return lower(end, from, (BPF_CORE_READ(task, mm, start_stack) + 7) & ~7ULL);
}

/* Copies one page of the stack, up to `end`; false at the end. Progress is kept in the walk only, so that all pages
 * look alike to the verifier. */
static __always_inline bool copy_page(struct unwind_scratch *scratch, struct task_struct *task, __u64 end)
{
    __u64 copied = scratch->walk.stack_bytes, from = (scratch->walk.r.sp & ~7ULL) + copied;
    __u64 at = (scratch->walk.base + 1) * 8 + copied, size = UNWIND_COPY_PAGE - (from & (UNWIND_COPY_PAGE - 1));
    if (from >= end)
        return false;
    if (size > end - from)
        size = end - from;
    UNWIND_SAME_REGISTER(size);
    UNWIND_SAME_REGISTER(at);
    if (size == 0 || size > UNWIND_COPY_PAGE || at > sizeof(scratch->data) ||
        bpf_copy_from_user_task((__u8 *)scratch->data + at, size, (const void *)from, task, 0))
        return false;
    scratch->walk.stack_bytes = copied + size;
    return true;
}

static __always_inline bool copy_user_stack(struct unwind_scratch *scratch, struct task_struct *task)
{
    struct unwind_walk *w = &scratch->walk;
    struct user_registers registers;
    if (bpf_probe_read_kernel(&registers, sizeof(registers), (const void *)bpf_task_pt_regs(task)) ||
        !user_mode(&registers) || !walk_begin(w, &registers))
        return false;
    __u64 end = stack_end(task, w->r.sp & ~7ULL), index = w->base;
    if (!end || index >= STACK_MAX_KERNEL_FRAMES + 1)
        return false;
    scratch->data[index] = w->r.ip | FRAME_EXACT;
    w->frames = 1;
    w->interrupted = 1;
    for (int n = 0; n < STACK_COPY_BYTES / UNWIND_COPY_PAGE + 1; n++)
        if (!copy_page(scratch, task, end))
            break;
    unwind_restore_copied(scratch, task, w->r.sp & ~7ULL, (w->base + 1) * 8, w->stack_bytes);
    return w->stack_bytes > 0;
}

/* Fills the scratch memory's record with both stacks, of the time `time_ns`. False: they cannot be read. */
static __always_inline bool sleeping_stack_take(struct unwind_scratch *scratch, struct task_struct *task,
                                                __u64 since_ns)
{
    stack_begin(scratch, task, since_ns);
    if (!stack_take_kernel(scratch, task))
        return false;
    if (!copy_user_stack(scratch, task))
        return false;
    sample_set_walk(scratch, UNWIND_END_NOT_RUNNING);
    return true;
}

/* Finishes the record that sleeping_stack_take filled, writes it to `ring` and counts it in `*sent`, or in `*lost`
 * where the ring has no room. */
static __always_inline void sleeping_stack_send(struct unwind_scratch *scratch, void *ring, __u64 *sent, __u64 *lost)
{
    struct stack_record *s = stack_record_of(scratch);
    __u64 size = sample_finish(scratch);
    UNWIND_SAME_REGISTER(size);
    if (size > sizeof(*s) + sizeof(scratch->data))
        return;
    s->h.size_bytes = size;
    if (bpf_ringbuf_output(ring, s, size, BPF_RB_FORCE_WAKEUP))
        (*lost)++;
    else
        (*sent)++;
}
