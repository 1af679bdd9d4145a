/* One step of a stack walk: from a frame's registers and the rule for its ip to its caller's registers. The same code
 * walks live stacks in BPF (unwind.bpf.h) and copied ones in user space (src/resolve/unwind/unwind.c), so that both
 * give the same result.
 *
 * The including file first defines how to read 8 bytes of the stack; `context` (of type UNWIND_CONTEXT, default void)
 * is passed through:
 *
 *     #define UNWIND_READ(context, address, ret_u64) my_read(context, address, ret_u64)   // 0; otherwise: unreadable
 *
 * how to read a register of the leaf by its DWARF number: UNWIND_LEAF_REGISTER(context, number, ret_u64) (x86-64);
 * where the saved registers of the thread's goroutine are: UNWIND_GOROUTINE(context), a const
 * struct unwind_goroutine * (x86-64); optionally, how to read the uppermost words of a frame, below `cfa`, in advance:
 * UNWIND_PREFETCH(context, cfa); and the instruction set of the unwound program: UNWIND_ARM64, else x86-64. */
#pragma once

#include "probes/unwind/stack.h"
#include "probes/unwind/unwind.h"

/* Results of a step; any value >= 0 is an enum unwind_end: the walk ends at this frame, its registers are unchanged. */
#define UNWIND_STEP_RETURNED (-1) /* `r` is the caller; r->ip is a return address: rules apply at ip - 1 */
#define UNWIND_STEP_INTERRUPTED                                                                                        \
    (-2) /* `r` was interrupted by a signal: r->ip is exact, and all registers are valid                               \
          */

#ifndef UNWIND_CONTEXT
#define UNWIND_CONTEXT void
#endif
#ifndef UNWIND_PREFETCH
#define UNWIND_PREFETCH(context, cfa) ((void)(context), (void)(cfa))
#endif

#ifndef UNWIND_INLINE
#define UNWIND_INLINE static inline __attribute__((unused))
#endif

/* Return addresses of arm64 may be signed in their unused bits. */
UNWIND_INLINE __u64 unwind_address(__u64 address)
{
#ifdef UNWIND_ARM64
    return address & 0x0000ffffffffffffULL;
#else
    return address;
#endif
}

/* Offsets of the interrupted registers in the kernel's struct ucontext. */
#ifdef UNWIND_ARM64
#define UNWIND_UCONTEXT_FP 416
#define UNWIND_UCONTEXT_LR 424
#define UNWIND_UCONTEXT_SP 432
#define UNWIND_UCONTEXT_IP 440
#else
#define UNWIND_UCONTEXT_REGISTERS 40
#define UNWIND_UCONTEXT_FP        120
#define UNWIND_UCONTEXT_BX        128
#define UNWIND_UCONTEXT_SP        160
#define UNWIND_UCONTEXT_IP        168
/* Positions of DWARF registers 0 to 7 in the ucontext, four bits each; 8 to 15 come first. */
#define UNWIND_UCONTEXT_ORDER     0xfa89becdULL

/* Reads any register of an interrupted frame. 0; otherwise: unknown. */
UNWIND_INLINE int unwind_interrupted_register(const struct unwind_registers *r, __u32 number, __u64 *ret,
                                              UNWIND_CONTEXT *context)
{
    __u64 index = number < 8 ? (UNWIND_UCONTEXT_ORDER >> (4 * number)) & 15 : number - 8;

    if (number >= UNWIND_LEAF_REGISTERS)
        return UNWIND_END_UNSUPPORTED;
    if (r->ucontext)
        return UNWIND_READ(context, r->ucontext + UNWIND_UCONTEXT_REGISTERS + 8 * index, ret);
    return UNWIND_LEAF_REGISTER(context, number, ret);
}
#endif

UNWIND_INLINE int unwind_step_signal(const struct unwind_rule *rule, struct unwind_registers *r,
                                     UNWIND_CONTEXT *context)
{
    __u64 ucontext = r->sp + (__s64)rule->cfa_offset;
    struct unwind_registers next = {};

    if (UNWIND_READ(context, ucontext + UNWIND_UCONTEXT_IP, &next.ip) ||
        UNWIND_READ(context, ucontext + UNWIND_UCONTEXT_SP, &next.sp) ||
        UNWIND_READ(context, ucontext + UNWIND_UCONTEXT_FP, &next.fp))
        return UNWIND_END_BAD_READ;
#ifdef UNWIND_ARM64
    if (UNWIND_READ(context, ucontext + UNWIND_UCONTEXT_LR, &next.lr))
        return UNWIND_END_BAD_READ;
#else
    if (UNWIND_READ(context, ucontext + UNWIND_UCONTEXT_BX, &next.bx))
        return UNWIND_END_BAD_READ;
    next.ucontext = ucontext;
    next.goroutine = r->goroutine;
#endif
    *r = next;
    return UNWIND_STEP_INTERRUPTED;
}

/* Steps to the caller by the frame pointer, for code without rules. `fp_walk`: the frame below was left by its frame
 * pointer, too, so that a zero is the end of the chain and not just a register that contains zero. */
UNWIND_INLINE int unwind_step_fp(struct unwind_registers *r, int fp_walk, UNWIND_CONTEXT *context)
{
    __u64 fp = r->fp, caller_fp, ip;

    if (fp == 0)
        return fp_walk ? UNWIND_END_ENTRY : UNWIND_END_NO_CFI;
    if (fp & 7)
        return UNWIND_END_NO_CFI;
    UNWIND_PREFETCH(context, fp + 16);
    if (UNWIND_READ(context, fp, &caller_fp) || UNWIND_READ(context, fp + 8, &ip))
        return UNWIND_END_BAD_READ;
    ip = unwind_address(ip);
    if (ip == 0)
        return fp_walk ? UNWIND_END_ENTRY : UNWIND_END_NO_CFI;
    if (caller_fp == fp)
        return UNWIND_END_NO_CFI;
    r->ip = ip;
    r->sp = fp + 16;
    r->fp = caller_fp;
    return UNWIND_STEP_RETURNED;
}

/* Reads a saved register into `*value`. At the end of functions, CFI may still refer to the slot that the
 * register was popped from, below the stack pointer: if that is unreadable (a copy begins above it), the register
 * itself is valid. */
UNWIND_INLINE int unwind_read_saved(__u64 address, __u64 sp, __u64 *value, void *context)
{
    __u64 saved;

    if (UNWIND_READ(context, address, &saved))
        return address >= sp;
    *value = saved;
    return 0;
}

#ifndef UNWIND_ARM64
/* Steps from the stack of Go's runtime, which works for a goroutine, to the goroutine's own stack; the goroutine
 * requested more stack space. */
UNWIND_INLINE int unwind_step_goroutine(struct unwind_registers *r, const struct unwind_goroutine *goroutine)
{
    if (r->goroutine == UNWIND_GOROUTINE_LEFT || goroutine->state == UNWIND_GOROUTINE_NONE)
        return UNWIND_END_ENTRY;
    if (goroutine->state != UNWIND_GOROUTINE_FOUND)
        return UNWIND_END_UNSUPPORTED;
    if (r->goroutine || (goroutine->sp & 7) || goroutine->ip == 0)
        return UNWIND_END_BAD_READ;
    r->goroutine = UNWIND_GOROUTINE_JOINED;
    r->ip = goroutine->ip;
    r->sp = goroutine->sp;
    r->fp = goroutine->fp;
    return UNWIND_STEP_RETURNED;
}

/* The CFA of a function of Go's runtime on its thread's stack: in the stack of the goroutine that it works for. As
 * unwind_find_cfa. */
UNWIND_INLINE int unwind_find_goroutine_cfa(const struct unwind_rule *rule, const struct unwind_registers *r,
                                            const struct unwind_goroutine *goroutine, struct unwind_registers *next)
{
    if (r->goroutine)
        return UNWIND_END_BAD_READ;
    next->goroutine = UNWIND_GOROUTINE_JOINED;
    next->fp = goroutine->fp;
    next->sp = goroutine->sp + (__s64)rule->cfa_offset;
    if (goroutine->state == UNWIND_GOROUTINE_FOUND)
        return UNWIND_STEP_RETURNED;
    /* For an unknown Go version the frame pointer leads on, if it is saved. */
    if (rule->fp != UNWIND_FP_AT_CFA)
        return UNWIND_END_UNSUPPORTED;
    next->sp = r->fp + (__s64)rule->cfa_offset;
    return UNWIND_STEP_RETURNED;
}
#endif

/* Computes the CFA, which is the caller's stack pointer: next->sp, and what else the rule for it decides.
 * UNWIND_STEP_RETURNED, or an enum unwind_end. */
UNWIND_INLINE int unwind_find_cfa(const struct unwind_rule *rule, const struct unwind_registers *r, int interrupted,
                                  struct unwind_registers *next, UNWIND_CONTEXT *context)
{
    __u64 cfa;

    (void)interrupted; /* arm64: its rules need no register that only a signal leaves */
    switch (rule->cfa) {
    case UNWIND_CFA_END:
        return UNWIND_END_ENTRY;
    case UNWIND_CFA_SP_SCHEDULER:
        next->goroutine = UNWIND_GOROUTINE_LEFT;
        cfa = r->sp + (__s64)rule->cfa_offset;
        break;
    case UNWIND_CFA_SP:
        cfa = r->sp + (__s64)rule->cfa_offset;
        break;
    case UNWIND_CFA_FP:
        cfa = r->fp + (__s64)rule->cfa_offset;
        break;
    case UNWIND_CFA_SP_DEREF:
    case UNWIND_CFA_FP_DEREF:
        if (UNWIND_READ(context, (rule->cfa == UNWIND_CFA_SP_DEREF ? r->sp : r->fp) + (__s64)rule->cfa_offset, &cfa))
            return UNWIND_END_BAD_READ;
        cfa += (__s64)rule->cfa_add;
        break;
    case UNWIND_CFA_PLT:
        cfa = r->sp + 8 + ((r->ip & 15) >= (__u64)(__s64)rule->cfa_offset ? 8 : 0);
        break;
#ifndef UNWIND_ARM64
    case UNWIND_CFA_REGISTER:
        if (rule->cfa_register == 3)
            cfa = r->bx;
        else if (!interrupted || unwind_interrupted_register(r, rule->cfa_register, &cfa, context))
            return UNWIND_END_UNSUPPORTED;
        cfa += (__s64)rule->cfa_offset;
        break;
    case UNWIND_CFA_SP_INDEXED:
        if (!interrupted || unwind_interrupted_register(r, rule->cfa_register, &cfa, context))
            return UNWIND_END_UNSUPPORTED;
        if (UNWIND_READ(context, r->sp + (__s64)rule->cfa_offset + 8 * cfa, &cfa))
            return UNWIND_END_BAD_READ;
        cfa += (__s64)rule->cfa_add;
        break;
    case UNWIND_CFA_GOROUTINE:
        return unwind_find_goroutine_cfa(rule, r, UNWIND_GOROUTINE(context), next);
#endif
    case UNWIND_CFA_NONE:
        return UNWIND_END_NO_CFI;
    default:
        return UNWIND_END_UNSUPPORTED;
    }
    next->sp = cfa;
    return UNWIND_STEP_RETURNED;
}

/* Restores the caller's frame pointer: next->fp. 0; otherwise: unreadable. */
UNWIND_INLINE int unwind_restore_fp(const struct unwind_rule *rule, const struct unwind_registers *r,
                                    struct unwind_registers *next, UNWIND_CONTEXT *context)
{
    switch (rule->fp) {
    case UNWIND_FP_AT_CFA:
        return unwind_read_saved(next->sp + (__s64)rule->fp_offset, r->sp, &next->fp, context);
    case UNWIND_FP_AT_FP:
        /* At the end of a function that realigned its stack, GCC's CFI does not describe that the frame pointer was
         * already popped: a slot outside the frame reveals it. */
        next->fp += (__s64)rule->fp_offset;
        if (next->fp >= r->sp && next->fp < next->sp)
            return UNWIND_READ(context, next->fp, &next->fp);
        next->fp = r->fp;
        return 0;
    case UNWIND_FP_UNDEFINED:
        next->fp = 0;
        return 0;
    default:
        return 0;
    }
}

/* Restores the return address, next->ip, and on x86-64 the caller's rbx. UNWIND_STEP_RETURNED, or an enum unwind_end.
 */
UNWIND_INLINE int unwind_restore_ip(const struct unwind_rule *rule, const struct unwind_registers *r, int interrupted,
                                    struct unwind_registers *next, UNWIND_CONTEXT *context)
{
    __u64 ip;

    if (rule->ra_offset == 0) { /* still in a register */
        if (!interrupted)
            return UNWIND_END_UNSUPPORTED;
#ifdef UNWIND_ARM64
        ip = r->lr;
#else
        if (unwind_interrupted_register(r, rule->cfa_register, &ip, context))
            return UNWIND_END_UNSUPPORTED;
#endif
    } else if (UNWIND_READ(context, next->sp + (__s64)rule->ra_offset, &ip)) {
        return UNWIND_END_BAD_READ;
    }
#ifndef UNWIND_ARM64
    if (rule->bx_words && unwind_read_saved(next->sp - 8 * (__u64)rule->bx_words, r->sp, &next->bx, context))
        return UNWIND_END_BAD_READ;
#endif
    next->ip = unwind_address(ip);
    return UNWIND_STEP_RETURNED;
}

/* Steps to the caller by `rule`. Returns UNWIND_STEP_* or an enum unwind_end. `interrupted`: r->ip is exact (the leaf,
 * or above a signal), so that caller-saved registers are still valid. */
UNWIND_INLINE int unwind_step(const struct unwind_rule *rule, struct unwind_registers *r, int interrupted,
                              UNWIND_CONTEXT *context)
{
    struct unwind_registers next = *r;
    int end;

    if (rule->cfa == UNWIND_CFA_SIGNAL)
        return unwind_step_signal(rule, r, context);
#ifndef UNWIND_ARM64
    if (rule->cfa == UNWIND_CFA_GOROUTINE && rule->ra_offset == 0)
        return unwind_step_goroutine(r, UNWIND_GOROUTINE(context));
#endif
    end = unwind_find_cfa(rule, r, interrupted, &next, context);
    if (end >= 0)
        return end;
    if (next.sp & 7)
        return UNWIND_END_BAD_READ;
    UNWIND_PREFETCH(context, next.sp);
    if (unwind_restore_fp(rule, r, &next, context))
        return UNWIND_END_BAD_READ;
    end = unwind_restore_ip(rule, r, interrupted, &next, context);
    if (end >= 0)
        return end;
    if (next.ip == 0)
        return UNWIND_END_ENTRY;
    /* No progress: a corrupt stack, which would be an endless loop. */
    if (next.ip == r->ip && next.sp == r->sp)
        return UNWIND_END_BAD_READ;
    *r = next;
    return UNWIND_STEP_RETURNED;
}
