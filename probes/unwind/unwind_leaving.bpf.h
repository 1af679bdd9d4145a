/* The step out of code without unwind information that leaves its frame as soon as the function it called returns: its
 * next instructions show the frame's size. Examples are the trampolines that CPython generates for perf (python -X
 * perf), which keep no frame pointer, and others that do. Included by unwind.bpf.h. x86-64. */
#pragma once

#define LEAVING_ADD      0xc48348 /* add $n,%rsp: n follows */
#define LEAVING_ADD_MASK 0xffffff
#define LEAVING_RET      0xc3
#define LEAVING_POP_RET  0xc35d /* pop %rbp; ret */

/* Whether the code at the return address leaves the frame; `ret_skip`: offset of the next return address from the
 * stack pointer, `ret_has_fp`: the frame pointer is saved at the stack pointer. */
static __always_inline bool leaving_frame(__u64 code, __u32 *ret_skip, bool *ret_has_fp)
{
    *ret_has_fp = (code & 0xffff) == LEAVING_POP_RET;
    *ret_skip = *ret_has_fp ? 8 : code >> 24 & 0x7f;
    return *ret_has_fp ||
           ((code & LEAVING_ADD_MASK) == LEAVING_ADD && (code >> 32 & 0xff) == LEAVING_RET && !(code >> 24 & 0x87));
}

/* UNWIND_END_NO_CFI: the code does not leave its frame. */
static __always_inline int unwind_step_leaving(struct unwind_registers *r)
{
#if defined(__TARGET_ARCH_x86)
    __u64 code = 0, ip;
    __u32 skip;
    bool has_fp;

    if (bpf_probe_read_user(&code, 8, (const void *)r->ip) || !leaving_frame(code, &skip, &has_fp) ||
        bpf_probe_read_user(&ip, 8, (const void *)(r->sp + skip)) || ip == 0)
        return UNWIND_END_NO_CFI;
    if (has_fp && bpf_probe_read_user(&r->fp, 8, (const void *)r->sp))
        return UNWIND_END_NO_CFI;
    r->ip = ip;
    r->sp += skip + 8;
    return UNWIND_STEP_RETURNED;
#else
    return UNWIND_END_NO_CFI;
#endif
}
