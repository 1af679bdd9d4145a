/* The start of a user stack walk (a task's user registers), and its result in a record (struct stack_record, in the
 * CPU's scratch memory). Shared by the programs that unwind: cpu.bpf.c, offcpu.bpf.c, request.bpf.c. */
#pragma once

#include "probes/unwind/unwind.bpf.h"

#include <bpf/bpf_core_read.h>

#if defined(__TARGET_ARCH_x86)
static __always_inline bool user_mode(const struct user_registers *regs)
{
    return (regs->cs & 3) == 3;
}

#define USER_CODE_64 0x33

/* False for code that cannot be unwound: 32-bit code. */
static __always_inline bool walk_begin(struct unwind_walk *w, const struct user_registers *regs)
{
    w->r.ip = regs->ip;
    w->r.sp = regs->sp;
    w->r.fp = regs->bp;
    w->r.bx = regs->bx;
    w->window.leaf[0] = regs->ax;
    w->window.leaf[1] = regs->dx;
    w->window.leaf[2] = regs->cx;
    w->window.leaf[3] = regs->bx;
    w->window.leaf[4] = regs->si;
    w->window.leaf[5] = regs->di;
    w->window.leaf[6] = regs->bp;
    w->window.leaf[7] = regs->sp;
    w->window.leaf[8] = regs->r8;
    w->window.leaf[9] = regs->r9;
    w->window.leaf[10] = regs->r10;
    w->window.leaf[11] = regs->r11;
    w->window.leaf[12] = regs->r12;
    w->window.leaf[13] = regs->r13;
    w->window.leaf[14] = regs->r14;
    w->window.leaf[15] = regs->r15;
    return regs->cs == USER_CODE_64;
}
#elif defined(__TARGET_ARCH_arm64)
static __always_inline bool user_mode(const struct user_registers *regs)
{
    return (regs->pstate & 0xf) == 0;
}

static __always_inline bool walk_begin(struct unwind_walk *w, const struct user_registers *regs)
{
    w->r.ip = regs->pc;
    w->r.sp = regs->sp;
    w->r.fp = regs->regs[29];
    w->r.lr = regs->regs[30];
    return (regs->pstate & 0x10) == 0;
}
#endif

/* The user registers of a task inside the kernel, at the top of its kernel stack. The helper (5.15) knows where;
 * earlier kernels have no padding above them. */
#define KERNEL_STACK_BYTES 16384

enum bpf_func_id___local { BPF_FUNC_get_current_task_btf___local = 158, BPF_FUNC_task_pt_regs___local = 175 };

static __always_inline const void *kernel_registers_of(struct task_struct *task)
{
    if (bpf_core_enum_value_exists(enum bpf_func_id___local, BPF_FUNC_task_pt_regs___local))
        return (const void *)bpf_task_pt_regs(bpf_get_current_task_btf());
    return (const char *)BPF_CORE_READ(task, stack) + KERNEL_STACK_BYTES - bpf_core_type_size(struct pt_regs);
}

static __always_inline bool kernel_registers(struct task_struct *task, struct user_registers *ret)
{
    return bpf_probe_read_kernel(ret, sizeof(*ret), kernel_registers_of(task)) == 0;
}

/* Whether user space may finish the walk if it gets a copy of the stack. Other ends are final, so a copy would be
 * wasted. */
static __always_inline bool end_is_resumable(int end)
{
    return end == UNWIND_END_NO_PROCESS || end == UNWIND_END_NO_TABLE || end == UNWIND_END_NO_MAPPING;
}

static __always_inline struct stack_record *stack_record_of(struct unwind_scratch *scratch)
{
    return (struct stack_record *)scratch->header;
}

/* Takes the kernel stack of the current context. */
static __always_inline void sample_kernel(void *ctx, struct unwind_scratch *scratch)
{
    long bytes = bpf_get_stack(ctx, scratch->data, STACK_MAX_KERNEL_FRAMES * 8, 0);
    if (bytes <= 0 || bytes > STACK_MAX_KERNEL_FRAMES * 8)
        return;
    stack_record_of(scratch)->kernel_frames = (__u64)bytes / 8;
    if (bytes == STACK_MAX_KERNEL_FRAMES * 8)
        stack_record_of(scratch)->flags |= STACK_RECORD_KERNEL_TRUNCATED;
}

#if defined(__TARGET_ARCH_x86)
/* The kernel's unwinder has no rules for the first instructions of retpolines (UNWIND_HINT_UNDEFINED in
 * arch/x86/lib/retpoline.S): for a tick there only the leaf is found. A retpoline begins with a call, followed by a
 * speculation trap (int3; until 6.1 pause, lfence, jmp), so the word at the stack pointer points to that trap, and the
 * next word is the caller's return address. `at`: registers of the interrupted code. */
static __always_inline void sample_retpoline_caller(const struct user_registers *at, struct unwind_scratch *scratch)
{
    __u64 words[2];

    if (stack_record_of(scratch)->kernel_frames != 1 ||
        bpf_probe_read_kernel(words, sizeof(words), (const void *)at->sp) ||
        (words[0] != at->ip - 1 && words[0] != at->ip - 7))
        return;
    scratch->data[1] = words[1];
    stack_record_of(scratch)->kernel_frames = 2;
}
#else
static __always_inline void sample_retpoline_caller(const struct user_registers *at, struct unwind_scratch *scratch)
{
}
#endif

/* Copies the stack, for user space to continue where the walk ended. */
static __always_inline void copy_stack(struct task_struct *task)
{
    unwind_copy_stack(BPF_CORE_READ(task, mm, start_stack), BPF_CORE_READ(task, sas_ss_sp),
                      BPF_CORE_READ(task, sas_ss_size));
}

/* Writes the walk's result to the record. */
static __always_inline void sample_set_walk(struct unwind_scratch *scratch, int end)
{
    struct stack_record *s = stack_record_of(scratch);

    s->user_end = end;
    s->user_frames = scratch->walk.frames;
    s->stack_bytes = scratch->walk.stack_bytes;
    if (s->stack_bytes)
        s->stack_skipped_words = scratch->walk.stack_skipped / 8;
    if (scratch->walk.second_bytes)
        s->flags |= STACK_RECORD_SECOND_STACK;
    s->stop_ip = scratch->walk.r.ip;
    s->stop_sp = scratch->walk.r.sp;
    s->stop_fp = scratch->walk.r.fp;
    s->stop_lr = scratch->walk.r.lr;
    s->stop_bx = scratch->walk.r.bx;
    if (scratch->walk.interrupted)
        s->flags |= STACK_RECORD_STOP_INTERRUPTED;
    if (scratch->walk.by_fp)
        s->flags |= STACK_RECORD_STOP_BY_FP;
}

/* Appends the leaf's registers to a copied stack if necessary; returns the size of the record. */
static __always_inline __u64 sample_finish(struct unwind_scratch *scratch)
{
    struct stack_record *s = stack_record_of(scratch);
    __u64 size = sizeof(*s) + (scratch->walk.base + scratch->walk.frames) * 8 + scratch->walk.stack_bytes +
                 scratch->walk.second_bytes;

#if defined(__TARGET_ARCH_x86)
    if (s->stack_bytes && s->user_frames == 1) {
        __u64 leaf_bytes = unwind_copy_leaf(scratch);

        if (leaf_bytes)
            s->flags |= STACK_RECORD_REGISTERS;
        size += leaf_bytes;
    }
#endif
    return size;
}
