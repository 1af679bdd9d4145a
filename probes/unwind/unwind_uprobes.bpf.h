/* Addresses that the kernel has replaced by ones of the mapping [uprobes], for uprobes of this agent or of another
 * program:
 *
 * - The return address of a function with a uretprobe, while it runs, by that of a trampoline, the start of the
 *   mapping. The original is in the task's list of pending returns, innermost function first, with the stack pointer
 *   that the function had at its entry.
 * - The address of an instruction with a uprobe, while the kernel executes it out of line.
 *
 * Included by unwind.bpf.h. */
#pragma once

#include <bpf/bpf_core_read.h>

#define UNWIND_PENDING_RETURNS_MAX 64 /* the kernel's MAX_URETPROBE_DEPTH */
#define UNWIND_TRAMPOLINE_ALIGN    4096
#define UNWIND_INSTRUCTION_BYTES   16 /* none is longer */
/* Bytes between the stack pointer at a function's entry and its CFA. */
#if defined(__TARGET_ARCH_x86)
#define UNWIND_ENTRY_BELOW_CFA 8
#else
#define UNWIND_ENTRY_BELOW_CFA 0
#endif

/* The innermost pending return of a task; NULL: none. `*ret_trampoline`: the address that replaces return addresses. */
static __always_inline struct return_instance *unwind_pending_returns(struct task_struct *task, __u64 *ret_trampoline)
{
    struct xol_area *area;

    if (!bpf_core_field_exists(task->utask)) /* without CONFIG_UPROBES */
        return NULL;
    area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
    if (!area)
        return NULL;
    *ret_trampoline = BPF_CORE_READ(area, vaddr);
    return BPF_CORE_READ(task, utask, return_instances);
}

/* Replaces the walk's return address if it is the trampoline's. If the list has no entry for the frame, it stays,
 * and the walk ends there. */
__noinline int unwind_restore_return(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct return_instance *pending;
    __u64 trampoline = 0;

    if (!scratch)
        return 0;
    pending = unwind_pending_returns((struct task_struct *)bpf_get_current_task(), &trampoline);
    if (scratch->walk.r.ip != trampoline)
        return 0;
    if (scratch->walk.pending_return) /* the entries before it belong to functions that the walk has left */
        pending = (struct return_instance *)scratch->walk.pending_return;
    for (int n = 0; n < UNWIND_PENDING_RETURNS_MAX && pending; n++) {
        if (BPF_CORE_READ(pending, stack) == scratch->walk.r.sp - UNWIND_ENTRY_BELOW_CFA) {
            scratch->walk.r.ip = BPF_CORE_READ(pending, orig_ret_vaddr);
            scratch->walk.pending_return = (__u64)pending;
            return 0;
        }
        pending = BPF_CORE_READ(pending, next);
    }
    return 0;
}

/* Replaces the leaf's address if it is that of an instruction executed out of line, or of the one after it. */
__noinline int unwind_restore_leaf(void)
{
    const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
    struct unwind_scratch *scratch = unwind_scratch_get();
    const struct uprobe_task *utask;
    __u64 distance;

    if (!scratch || !bpf_core_field_exists(task->utask))
        return 0;
    utask = BPF_CORE_READ(task, utask);
    if (!utask || !BPF_CORE_READ(utask, active_uprobe))
        return 0;
    distance = scratch->walk.r.ip - BPF_CORE_READ(utask, xol_vaddr);
    if (distance < UNWIND_INSTRUCTION_BYTES)
        scratch->walk.r.ip = BPF_CORE_READ(utask, vaddr) + distance;
    return 0;
}

/* Whether the walk's return address may be the trampoline's: few others are the start of a page. */
static __always_inline bool unwind_may_be_trampoline(const struct unwind_walk *w)
{
    return !w->interrupted && w->r.ip % UNWIND_TRAMPOLINE_ALIGN == 0;
}

/* Replaces the trampoline's address in a copy of the task's stack from the address `from` on, `bytes` long, which is at
 * byte offset `at` of data[]. x86-64: on arm64 the list does not show where a function has saved its return address. */
static __always_inline void unwind_restore_copied(struct unwind_scratch *scratch, struct task_struct *task, __u64 from,
                                                  __u32 at, __u32 bytes)
{
    __u64 trampoline = 0;
    const struct return_instance *pending = unwind_pending_returns(task, &trampoline);

    for (int n = 0; n < UNWIND_PENDING_RETURNS_MAX && pending; n++) {
        __u64 distance = BPF_CORE_READ(pending, stack) - from, index = (at + distance) / 8;

        UNWIND_SAME_REGISTER(index);
        if (distance < bytes && index < UNWIND_DATA_WORDS && scratch->data[index] == trampoline)
            scratch->data[index] = BPF_CORE_READ(pending, orig_ret_vaddr);
        pending = BPF_CORE_READ(pending, next);
    }
}
