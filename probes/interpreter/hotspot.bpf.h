/* BPF side of HotSpot's frames (hotspot.h): the unwind step through its JIT code, and the names of the methods found.
 * A sample contains the frames of one interpreter (interpreter.bpf.h), and Python takes precedence.
 *
 * Reads the process's memory with bpf_probe_read_user only: never sleeps, changes nothing. All loops are bounded,
 * whatever the memory contains. Inconsistent data ends the walk, which the sample records: nothing is guessed. x86-64
 * only: elsewhere no process has a layout. */
#pragma once

#include "probes/interpreter/hotspot_scopes.bpf.h"

/* Steps to the caller, whose return address and frame pointer were found. */
static __always_inline int hotspot_step_to(struct unwind_walk *w, __u64 ip, __u64 sp, __u64 fp)
{
    if (ip == 0 || sp < w->r.sp)
        return UNWIND_END_NO_CFI;
    w->next.ip = ip;
    w->next.sp = sp;
    w->next.fp = fp;
    return UNWIND_STEP_RETURNED;
}

/* The return address lies `skip` bytes above the stack pointer and, if `is_saved`, the saved frame pointer just below
 * it. */
static __always_inline int hotspot_go_from_sp(struct unwind_walk *w, __u64 skip, bool is_saved)
{
    __u64 words[2] = {};

    if (bpf_probe_read_user(words, 16, (const void *)(w->r.sp + skip - 8)))
        return UNWIND_END_BAD_READ;
    return hotspot_step_to(w, words[1], w->r.sp + skip + 8, is_saved ? words[0] : w->r.fp);
}

static __always_inline int hotspot_go_from_fp(struct unwind_walk *w)
{
    __u64 words[2], fp = w->r.fp;

    if ((fp & 7) || fp < w->r.sp || fp - w->r.sp > HOTSPOT_FRAME_MAX)
        return UNWIND_END_NO_CFI;
    if (bpf_probe_read_user(words, 16, (const void *)fp))
        return UNWIND_END_BAD_READ;
    return hotspot_step_to(w, words[1], fp + 16, words[0]);
}

static __always_inline bool hotspot_is_code(const struct unwind_walk *w, __u64 address)
{
    return address - w->code_low < w->code_bytes;
}

/* Whether a call instruction precedes the address: of 5 bytes, or by a register or memory operand. */
static __always_inline bool hotspot_is_called_from(struct hotspot_scratch *h, __u64 ip)
{
    if (ip - h->interpreter_low < h->interpreter_high - h->interpreter_low)
        return true; /* the interpreter pushes such return addresses itself */
    if (bpf_probe_read_user(h->bytes, 8, (const void *)(ip - 8)))
        return false;
    return h->bytes[3] == 0xe8 || (h->bytes[6] == 0xff && (h->bytes[7] & 0xf8) == 0xd0) ||
           (h->bytes[5] == 0xff && (h->bytes[6] & 0xf8) == 0x50);
}

/* The frame is complete, except for values that some intrinsics (comparing strings, for one) push in the middle of a
 * function, which no metadata describes. In that case the return address's place contains the saved frame pointer or a
 * value, not code. The caller is always JIT code. */
#define HOTSPOT_PUSHED 2

static __always_inline int hotspot_go_from_leaf(struct hotspot_scratch *h, struct unwind_walk *w)
{
    __u64 at = w->r.sp + h->frame_bytes - 16;

    if (bpf_probe_read_user(h->words, (2 + HOTSPOT_PUSHED) * 8, (const void *)at))
        return UNWIND_END_BAD_READ;
    for (int i = 0; i <= HOTSPOT_PUSHED; i++)
        if (hotspot_is_code(w, h->words[i + 1]) && (i == 0 || hotspot_is_called_from(h, h->words[i + 1])))
            return hotspot_step_to(w, h->words[i + 1], at + 16 + 8 * i, h->words[i]);
    return UNWIND_END_NO_CFI;
}

/* How the frame is laid out at the current instruction. */
enum hotspot_stage {
    HOTSPOT_WHOLE,
    HOTSPOT_BEFORE_PUSH, /* the return address is at the stack pointer */
    HOTSPOT_AFTER_PUSH,  /* ... above the saved frame pointer, which is at the stack pointer */
    HOTSPOT_UNSAVED,     /* the frame is allocated, the frame pointer is still the caller's */
    HOTSPOT_UNKNOWN,
};

#define HOTSPOT_SUB_BYTE           0xec8348 /* sub $frame,%rsp, of a byte, and of four */
#define HOTSPOT_SUB_WORD           0xec8148
#define HOTSPOT_IS(b, at, x, y, z) ((b)[at] == (x) && (b)[(at) + 1] == (y) && (b)[(at) + 2] == (z))

/* Global functions: the verifier checks them once, and not for each place of a loop. */

/* The instruction `sub $size,%rsp` at this place of h->bytes: `size`, and in the upper half the number of its bytes; 0:
 * another instruction. */
__noinline __u64 hotspot_sub(__u32 place)
{
    const struct hotspot_scratch *h = hotspot_scratch_get();

    UNWIND_SAME_REGISTER(place);
    if (!h || place >= HOTSPOT_CODE_BYTES - 7)
        return 0;
    const __u8 *b = h->bytes + place;
    if (HOTSPOT_IS(b, 0, 0x48, 0x83, 0xec))
        return 4ULL << 32 | b[3];
    return HOTSPOT_IS(b, 0, 0x48, 0x81, 0xec) ? 7ULL << 32 | *(const __u32 *)&b[3] : 0;
}

/* The instruction behind the push of the frame pointer is `sub`, at this place of h->bytes and at this address. */
__noinline int hotspot_after_push(__u32 place, __u64 address, __u64 at)
{
    const struct hotspot_scratch *h = hotspot_scratch_get();

    if (at > address)
        return HOTSPOT_WHOLE;
    if (at == address)
        return HOTSPOT_AFTER_PUSH;
    UNWIND_SAME_REGISTER(place);
    if (!h || place < 3 || place >= HOTSPOT_CODE_BYTES || at != address - 3)
        return HOTSPOT_BEFORE_PUSH;
    const __u8 *b = h->bytes + place - 3;
    return HOTSPOT_IS(b, 0, 0x48, 0x8b, 0xec) || HOTSPOT_IS(b, 0, 0x48, 0x89, 0xe5) ? HOTSPOT_AFTER_PUSH
                                                                                    : HOTSPOT_BEFORE_PUSH;
}

/* Evaluates the function's prologue: h->bytes contains its last HOTSPOT_CODE_BYTES before the frame is
 * complete. There are two forms:
 *     push %rbp; [mov %rsp,%rbp;] sub $frame - 16,%rsp    and
 *     sub $frame - 8,%rsp; mov %rbp,frame - 16(%rsp) */
__noinline int hotspot_prologue(__u64 from, __u64 at)
{
    struct hotspot_scratch *h = hotspot_scratch_get();
    __u64 sub = 0;

    if (!h)
        return HOTSPOT_UNKNOWN;
    for (__u32 i = 0; i < HOTSPOT_CODE_BYTES - 7; i++, from++) {
        sub = hotspot_sub(i);
        if (sub && (__u32)sub == h->frame_bytes - 16)
            return hotspot_after_push(i, from, at);
        if (sub && (__u32)sub == h->frame_bytes - 8)
            break;
        sub = 0;
    }
    if (!sub)
        return HOTSPOT_UNKNOWN;
    return at <= from ? HOTSPOT_BEFORE_PUSH : at <= from + (sub >> 32) ? HOTSPOT_UNSAVED : HOTSPOT_WHOLE;
}

/* Whether the next instructions, at h->bytes, return, with only the return address on the stack. Between the end of
 * the frame and the return there is a safepoint poll: cmp poll(%r15),%rsp; ja; before 16 mov poll(%r15),%r10; test
 * %eax,(%r10). */
static __always_inline bool hotspot_returns(const __u8 *b)
{
    if (b[0] == 0xc3)
        return true;
    if (HOTSPOT_IS(b, 0, 0xc5, 0xf8, 0x77)) /* vzeroupper */
        return b[3] == 0xc3;
    if (b[0] == 0x0f && b[1] == 0x87)
        return b[6] == 0xc3;
    if (b[0] == 0x49 && b[1] == 0x3b)
        return (b[2] == 0x67 && b[4] == 0x0f && b[5] == 0x87) || (b[2] == 0xa7 && b[7] == 0x0f && b[8] == 0x87);
    if (HOTSPOT_IS(b, 0, 0x41, 0x85, 0x02))
        return b[3] == 0xc3;
    if (b[0] == 0x4d && b[1] == 0x8b)
        return (b[2] == 0x57 && HOTSPOT_IS(b, 4, 0x41, 0x85, 0x02) && b[7] == 0xc3) ||
               (b[2] == 0x97 && HOTSPOT_IS(b, 7, 0x41, 0x85, 0x02) && b[10] == 0xc3);
    return false;
}

static __always_inline int hotspot_epilogue(struct hotspot_scratch *h, __u64 at)
{
    if (bpf_probe_read_user(h->bytes, 16, (const void *)at))
        return HOTSPOT_UNKNOWN;
    if (hotspot_returns(h->bytes))
        return HOTSPOT_BEFORE_PUSH;
    return h->bytes[0] == 0x5d && hotspot_returns(h->bytes + 1) ? HOTSPOT_AFTER_PUSH : HOTSPOT_WHOLE;
}

__noinline int hotspot_stage_compiled(__u64 at)
{
    struct hotspot_scratch *h = hotspot_scratch_get();
    __u64 from;

    if (!h)
        return HOTSPOT_UNKNOWN;
    if (h->complete < 0 || at - h->code >= (__u32)h->complete)
        return hotspot_epilogue(h, at);
    from = h->code;
    if (h->complete > HOTSPOT_CODE_BYTES)
        from += h->complete - HOTSPOT_CODE_BYTES;
    if (bpf_probe_read_user(h->bytes, HOTSPOT_CODE_BYTES, (const void *)from))
        return HOTSPOT_UNKNOWN;
    return hotspot_prologue(from, at);
}

static __always_inline int hotspot_go_at_stage(struct unwind_walk *w, int stage, __u32 frame_bytes)
{
    switch (stage) {
    case HOTSPOT_UNSAVED:
        return hotspot_go_from_sp(w, frame_bytes - 8, false);
    case HOTSPOT_BEFORE_PUSH:
        return hotspot_go_from_sp(w, 0, false);
    case HOTSPOT_AFTER_PUSH:
        return hotspot_go_from_sp(w, 8, true);
    default:
        return UNWIND_END_NO_CFI;
    }
}

__noinline int hotspot_compiled(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct hotspot_scratch *h = hotspot_scratch_get();

    int stage;

    if (!scratch || !h)
        return UNWIND_END_UNSUPPORTED;
    if (!scratch->walk.interrupted)
        return hotspot_go_from_sp(&scratch->walk, h->frame_bytes - 8, true);
    stage = hotspot_stage_compiled(scratch->walk.r.ip);
    if (stage == HOTSPOT_WHOLE)
        return hotspot_go_from_leaf(h, &scratch->walk);
    return hotspot_go_at_stage(&scratch->walk, stage, h->frame_bytes);
}

/* Stubs begin with push %rbp; mov %rsp,%rbp, or have no frame at all. The frame pointer led to the right frame only if
 * the call before the return address calls this stub, or a C++ function that continues in it (a call by register
 * cannot be verified). */
static __always_inline bool hotspot_calls_here(struct hotspot_scratch *h, const struct unwind_walk *w, __u64 ip)
{
    __u64 to;

    if (bpf_probe_read_user(h->bytes, 8, (const void *)(ip - 8)))
        return false;
    to = ip + *(__s32 *)(h->bytes + 4);
    return h->bytes[3] != 0xe8 || to - h->blob_low < h->blob_high - h->blob_low || !hotspot_is_code(w, to);
}

__noinline int hotspot_stub(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct hotspot_scratch *h = hotspot_scratch_get();
    struct unwind_walk *w;
    int end;

    if (!scratch || !h)
        return UNWIND_END_UNSUPPORTED;
    w = &scratch->walk;
    if (!w->interrupted)
        return hotspot_go_from_fp(w);
    if (bpf_probe_read_user(h->bytes, 24, (const void *)(w->r.ip - 8)))
        return UNWIND_END_BAD_READ;
    if (h->kind == HOTSPOT_FRAMELESS || h->bytes[8] == 0x55 || hotspot_returns(h->bytes + 8))
        return hotspot_go_from_sp(w, 0, false);
    if (h->bytes[7] == 0x55 && (HOTSPOT_IS(h->bytes, 8, 0x48, 0x8b, 0xec) || HOTSPOT_IS(h->bytes, 8, 0x48, 0x89, 0xe5)))
        return hotspot_go_from_sp(w, 8, true);
    end = hotspot_go_from_fp(w);
    return end == UNWIND_STEP_RETURNED && !hotspot_calls_here(h, w, w->next.ip) ? UNWIND_END_NO_CFI : end;
}

/* Words of an interpreted frame below and above its frame pointer. */
enum {
    HOTSPOT_FRAME_BYTECODE, /* at -64: saved during calls */
    HOTSPOT_FRAME_METHOD = 5,
    HOTSPOT_FRAME_LAST_SP,
    HOTSPOT_FRAME_SENDER_SP, /* the caller's stack pointer before the interpreter's arguments were pushed */
    HOTSPOT_FRAME_FP,
    HOTSPOT_FRAME_IP,
    HOTSPOT_FRAME_WORDS,
};

/* The CPU is about to set up an interpreted frame: r13 is the caller's stack pointer until the frame is complete, and
 * then the bytecode pointer, which never points into the stack. The return address is first at the stack pointer,
 * right below r13; then in rax; and finally on the stack again, when rax has become the method. In between, the word
 * at the stack pointer may be stale. */
static __always_inline bool hotspot_is_entering(const struct unwind_walk *w)
{
    return w->interrupted && !w->r.ucontext && w->window.leaf[13] - w->r.sp <= HOTSPOT_FRAME_MAX;
}

static __always_inline int hotspot_entering(struct hotspot_scratch *h, struct unwind_walk *w)
{
    __u64 sender_sp = w->window.leaf[13], ip;

    if (w->r.fp >= w->r.sp && w->r.fp < sender_sp)
        return bpf_probe_read_user(h->words, 16, (const void *)w->r.fp)
                   ? UNWIND_END_BAD_READ
                   : hotspot_step_to(w, h->words[1], sender_sp, h->words[0]);
    if (bpf_probe_read_user(h->words, 16, (const void *)w->r.sp))
        return UNWIND_END_BAD_READ;
    ip = w->window.leaf[0];
    if (w->r.sp + 8 == sender_sp || !hotspot_is_code(w, ip))
        ip = h->words[0] == w->r.fp ? h->words[1] : h->words[0];
    return hotspot_is_code(w, ip) ? hotspot_step_to(w, ip, sender_sp, w->r.fp) : UNWIND_END_NO_CFI;
}

/* Coming from compiled code, r13 is arbitrary until the return address is in rax; going to compiled code it is as for
 * the interpreter, and only its frame pointer is needed. */
#define HOTSPOT_ARGUMENTS_MAX 4096

__noinline int hotspot_adapter(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct unwind_walk *w;
    int end;

    if (!scratch || !scratch->walk.interrupted || scratch->walk.r.ucontext)
        return UNWIND_END_NO_CFI;
    w = &scratch->walk;
    if (hotspot_is_code(w, w->window.leaf[0]) && w->window.leaf[13] - w->r.sp <= HOTSPOT_ARGUMENTS_MAX)
        return hotspot_step_to(w, w->window.leaf[0], w->window.leaf[13], w->r.fp);
    end = hotspot_go_from_sp(w, 0, false);
    return end == UNWIND_STEP_RETURNED && !hotspot_is_code(w, w->next.ip) ? UNWIND_END_NO_CFI : end;
}

__noinline int hotspot_interpreted(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct hotspot_scratch *h = hotspot_scratch_get();
    struct unwind_walk *w;
    __u64 fp;

    if (!scratch || !h)
        return UNWIND_END_UNSUPPORTED;
    w = &scratch->walk;
    fp = w->r.fp;
    if (hotspot_is_entering(w)) {
        int end = hotspot_entering(h, w);

        hotspot_put(w->window.leaf[3], false, 1); /* rbx: the method */
        return end;
    }
    if ((fp & 7) || fp < w->r.sp || fp - w->r.sp > HOTSPOT_FRAME_MAX)
        return UNWIND_END_NO_CFI;
    if (bpf_probe_read_user(h->words, HOTSPOT_FRAME_WORDS * 8, (const void *)(fp - 64)))
        return UNWIND_END_BAD_READ;
    /* A method handle's call removes its last argument and puts the return address in its place. */
    if (h->words[HOTSPOT_FRAME_SENDER_SP] - fp - 8 > HOTSPOT_FRAME_MAX)
        return UNWIND_END_NO_CFI;
    w->next.ip = h->words[HOTSPOT_FRAME_IP];
    w->next.sp = h->words[HOTSPOT_FRAME_SENDER_SP];
    w->next.fp = h->words[HOTSPOT_FRAME_FP];
    hotspot_put(h->words[HOTSPOT_FRAME_METHOD], false,
                w->interrupted && !w->r.ucontext ? w->window.leaf[13] : h->words[HOTSPOT_FRAME_BYTECODE]);
    return w->next.ip ? UNWIND_STEP_RETURNED : UNWIND_END_NO_CFI;
}

__noinline int hotspot_step(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct hotspot_scratch *h = hotspot_scratch_get();
    struct unwind_walk *w;
    int end;

    if (!scratch || !h)
        return UNWIND_END_UNSUPPORTED;
    w = &scratch->walk;
    w->next = w->r;
    w->next.bx = w->next.ucontext = 0;
    if (hotspot_find_blob(w->r.ip - !w->interrupted))
        return UNWIND_END_NO_CFI;
    if (h->kind == HOTSPOT_INTERPRETER)
        return hotspot_interpreted();
    if (h->kind == HOTSPOT_ADAPTER)
        end = hotspot_adapter();
    else if (h->kind <= HOTSPOT_FRAMELESS || (h->kind == HOTSPOT_COMPILED && w->interrupted && h->complete < 0))
        end = hotspot_stub();
    else
        end = hotspot_compiled();
    if (h->kind == HOTSPOT_METHOD)
        hotspot_put_compiled();
    else
        hotspot_put(h->blob_low, true, 0);
    return end;
}

/* See unwind.bpf.h. */
__noinline int unwind_frame_runtime(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct unwind_walk *w;
    int end;

    if (!scratch)
        return UNWIND_END_UNSUPPORTED;
    w = &scratch->walk;
    end = hotspot_step();
    if (end >= 0)
        return end;
    if (w->mark && w->next.sp > w->mark)
        unwind_pass_marks(w->r.sp, w->next.sp);
    w->r = w->next;
    w->interrupted = 0;
    w->by_fp = UNWIND_BY_RUNTIME;
    return UNWIND_GO_ON;
}

/* Prepares the native walk to use the process's HotSpot metadata, and to record the names of its frames unless another
 * interpreter's frames are recorded. */
static __always_inline void hotspot_begin(struct unwind_scratch *scratch, const struct unwind_process *process,
                                          struct task_struct *task, __u64 id, __u64 time_ns)
{
    struct hotspot_scratch *h = hotspot_scratch_get();
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct unwind_walk *w = &scratch->walk;
    __u64 low, high;

    if (!h || !p)
        return;
    p->names_code = 0;
    h->layout = process->interpreters.hotspot;
    h->is_begun = 0;
    h->hops = HOTSPOT_WALK_HOPS;
    h->blob_low = h->blob_high = 0;
    if (interpreter_read(&low, 8, h->layout.heaps + h->layout.low_bound) ||
        interpreter_read(&high, 8, h->layout.heaps + h->layout.high_bound) || high <= low)
        return;
    w->code_low = low;
    w->code_bytes = high - low;
    if (w->interpreted)
        return;
    interpreter_begin_codes(p, task, id, time_ns, RECORD_HOTSPOT_METHOD);
    p->kind = INTERPRETER_HOTSPOT;
    p->flags = INTERPRETER_TAIL_PLACED;
    p->names_code = 1;
}
