/* BPF side of unwinding a user stack: by unwind tables (unwind.h) where a process's code has them, by frame pointer
 * elsewhere, frame by frame up to the thread's entry or a reason to stop.
 *
 * Every step is a global function of scalars that finds its state in the CPU's scratch memory: the verifier then
 * checks each step once, not once per frame, so that a plain loop over 1024 frames loads on 5.10 as on 6.18, without
 * tail calls or bpf_loop. A program that includes this gets the maps and a scratch of its own; user space shares the
 * tables by passing their descriptors to libbpf. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/unwind/unwind.h"

#if defined(__TARGET_ARCH_arm64)
#define UNWIND_ARM64
#endif
#define UNWIND_READ(context, address, ret_u64) unwind_read(context, address, ret_u64)
#define UNWIND_PREFETCH(context, cfa)          unwind_prefetch(context, cfa)
#define UNWIND_LEAF_REGISTER(context, number, ret_u64)                                                                 \
    (*(ret_u64) = (context)->leaf[(number) % UNWIND_LEAF_REGISTERS], 0)
#define UNWIND_GOROUTINE(context) (&(context)->goroutine)
#define UNWIND_CONTEXT            struct unwind_window
#define UNWIND_INLINE             static __always_inline

/* A section of the stack, read at once, because a read of user memory costs far more than its bytes. Reaches from
 * where the current frame keeps its saved registers (the uppermost words below its CFA) over the frames of the next
 * callers. */
#define UNWIND_WINDOW_WORDS 64
#define UNWIND_WINDOW_BELOW 56

struct unwind_window {
    __u64 leaf[UNWIND_LEAF_REGISTERS];
    struct unwind_goroutine goroutine;
    __u64 start, bytes;
    __u64 words[UNWIND_WINDOW_WORDS];
};

static __always_inline int unwind_read(struct unwind_window *window, __u64 address, __u64 *ret)
{
    __u64 distance = address - window->start;

    if (distance < window->bytes && (distance & 7) == 0) {
        *ret = window->words[distance / 8 % UNWIND_WINDOW_WORDS];
        return 0;
    }
    return bpf_probe_read_user(ret, 8, (const void *)address);
}

static __always_inline void unwind_prefetch(struct unwind_window *window, __u64 cfa)
{
    __u64 start = cfa - UNWIND_WINDOW_BELOW;

    if (start - window->start < window->bytes && cfa - window->start <= window->bytes)
        return;
    window->start = start;
    window->bytes = sizeof(window->words);
    if (bpf_probe_read_user(window->words, sizeof(window->words), (const void *)start) == 0)
        return;
    window->bytes = UNWIND_WINDOW_BELOW; /* near the end of the stack */
    if (bpf_probe_read_user(window->words, UNWIND_WINDOW_BELOW, (const void *)start))
        window->bytes = 0;
}

#include "probes/unwind/stack.h"
#include "probes/unwind/unwind_step.h"
#include "probes/unwind/unwind_tables.bpf.h"

#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif

/* Results of unwind_frame while the walk has not ended. */
#define UNWIND_AT_PLACE   (-3) /* unwind_frame_placed completes the step */
#define UNWIND_AT_RUNTIME (-2) /* unwind_frame_runtime completes the step */
#define UNWIND_GO_ON      (-1) /* continue with the caller */

/* An including program may define smaller limits. */
#ifndef UNWIND_MAX_FRAMES
#define UNWIND_MAX_FRAMES    STACK_MAX_USER_FRAMES
#define UNWIND_FRAMES_BEFORE STACK_MAX_KERNEL_FRAMES /* room in data[] before the user frames */
#endif

/* For the words after the stack. */
#ifndef UNWIND_TAIL_WORDS
#define UNWIND_TAIL_WORDS 0
#endif

#define UNWIND_DATA_WORDS                                                                                              \
    (UNWIND_FRAMES_BEFORE + UNWIND_MAX_FRAMES + STACK_COPY_BYTES / 8 + UNWIND_LEAF_REGISTERS + UNWIND_TAIL_WORDS)
#define UNWIND_BY_RUNTIME 2 /* walk.by_fp */
#define UNWIND_FLUX_NS    1000000000ULL
#define UNWIND_COPY_PAGE  4096
/* The kernel's frame on a signal stack, mainly the vector registers: 11 KiB with AMX. */
#define UNWIND_SIGNAL_FRAME_BYTES 12288
#define UNWIND_HEADER_WORDS       (sizeof(struct stack_record) / 8)

struct unwind_walk {
    struct unwind_registers r;
#ifdef UNWIND_RUNTIME
    struct unwind_registers next;
#endif
    struct unwind_rule rule;
    struct unwind_window window;
    __u64 start, end;  /* the mapping found last */
    __u64 file_offset; /* of `start` */
    __u32 object, serial;
    __u32 pid;
    __u32 base; /* start of the user frames in data[] */
    __u32 frames;
    __u32 stack_skipped, stack_bytes; /* bytes between r.sp and the copy; bytes of the copy */
    __u32 second_bytes;               /* of a second copy behind it, including the address of its start; 0: none */
    __u32 copy_at, copy_skipped,
        copied; /* the copy in progress: offset in data[] in bytes; bytes skipped; bytes copied */
    __u64 copy_from;
    __u64 mark;                 /* the next stack address whose frame is searched (python.bpf.h); 0: none */
    __u64 code_low, code_bytes; /* address range of the JIT code of a runtime whose unwind metadata is known
                                   (hotspot.bpf.h); 0 bytes: none */
    __u64 pending_return;       /* the task's entry for the last uretprobe passed (unwind_uprobes.bpf.h); 0: none */
    __u64 interpreter_start;    /* of the mapping with an interpreter's code; 0: none */
    __u8 interrupted;           /* r.ip is exact */
    __u8 by_fp; /* the frame below was left by its frame pointer or (UNWIND_BY_RUNTIME) by its runtime's metadata */
    __u8 in_interpreter; /* the walk has passed the interpreter's code */
    __u8 interpreted;    /* the interpreter's frames of this sample are known (interpreter.bpf.h) */
    __u8 places;         /* frames left by their frame pointer are examined (v8.bpf.h) */
    __u8 walks_code; /* the process's JIT code keeps no frame pointers: without its layout (hotspot.bpf.h) the walk ends
                        there */
    __u8 is_in_flux; /* mappings changed a moment ago: a missing one may just not be known yet */
    __u32 zero; /* always 0, unknown to the verifier: searches that begin with it are checked once for all values */
};

/* Clears everything except the window's words, which are invalid then: the compiler clears at most a KiB at once. */
static __always_inline void unwind_walk_clear(struct unwind_walk *walk)
{
    __builtin_memset(walk, 0, offsetof(struct unwind_walk, window.words));
    __builtin_memset(&walk->start, 0, sizeof(*walk) - offsetof(struct unwind_walk, start));
}

struct unwind_scratch {
    struct unwind_walk walk;
    __u64 header[UNWIND_HEADER_WORDS]; /* the record's fixed part, filled in by the program that sends it */
    __u64 data[UNWIND_DATA_WORDS];
    __u8 slack[UNWIND_COPY_PAGE]; /* room for the verifier's view of a copy at the very end; never written */
};

/* One per CPU; not a per-CPU map, whose values are limited to 32 KiB. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* set at load: possible CPUs */
    __type(key, __u32);
    __type(value, struct unwind_scratch);
} unwind_scratch SEC(".maps");

/* Rules found recently, by address: the same return addresses recur in sample after sample. */
#define UNWIND_CACHE_ENTRIES 512

struct unwind_cached {
    __u32 serial, offset;
    struct unwind_rule rule;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, UNWIND_CACHE_ENTRIES);
    __type(key, __u32);
    __type(value, struct unwind_cached);
} unwind_cache SEC(".maps");

/* Makes the compiler check and use the same register: older verifiers do not track that a copy has the same bounds. */
#define UNWIND_SAME_REGISTER(value) __asm__ volatile("" : "+r"(value))

static __always_inline struct unwind_scratch *unwind_scratch_get(void)
{
    __u32 cpu = bpf_get_smp_processor_id();

    return bpf_map_lookup_elem(&unwind_scratch, &cpu);
}

#include "probes/unwind/go_stacks.bpf.h"
#include "probes/unwind/unwind_leaving.bpf.h"
#include "probes/unwind/unwind_search.bpf.h"
#include "probes/unwind/unwind_uprobes.bpf.h"

#ifdef UNWIND_RUNTIME
/* The rest of unwind_frame, separate to limit the depth of the BPF stack: steps through JIT code, and out of a frame
 * that was left by its frame pointer and may be an interpreter's (walk.next is its caller). Defined by the code that
 * defines UNWIND_RUNTIME. */
int unwind_frame_runtime(void);
int unwind_frame_placed(void);
#endif

#ifdef UNWIND_MARKS
/* The frame recorded last, whose stack is [low, high), contains walk.mark, or is the first one above it. Defined by
 * the code that defines UNWIND_MARKS. */
int unwind_pass_marks(__u64 low, __u64 high);
#endif

/* Finds the mapping that contains `address`, unless it is the one found last. 0, or the reason of failure (enum
 * unwind_end). */
static __always_inline int unwind_enter_mapping(const struct unwind_walk *w, __u64 address)
{
    return address < w->start || address >= w->end ? unwind_find_mapping(address) : 0;
}

/* Appends the current frame to data[]. False: it does not fit. */
static __always_inline bool unwind_record_frame(struct unwind_scratch *scratch)
{
    struct unwind_walk *w = &scratch->walk;
    __u64 index = (__u64)w->base + w->frames;

    UNWIND_SAME_REGISTER(index);
    if (index >= UNWIND_DATA_WORDS)
        return false;
    scratch->data[index] = w->interrupted ? w->r.ip | FRAME_EXACT : w->r.ip;
    w->frames++;
    return true;
}

/* Finds the rule for a file offset of the current mapping's object, in the cache if it was used recently. 0, or the
 * reason of failure (enum unwind_end). */
static __always_inline int unwind_find_cached_rule(const struct unwind_walk *w, __u32 offset, struct unwind_rule *ret)
{
    __u32 entry = (offset ^ offset >> 9 ^ w->serial * 97) % UNWIND_CACHE_ENTRIES;
    struct unwind_cached *cached = bpf_map_lookup_elem(&unwind_cache, &entry);
    int end;

    if (!cached)
        return UNWIND_END_UNSUPPORTED;
    if (cached->serial == w->serial && cached->offset == offset) {
        *ret = cached->rule;
        return 0;
    }
    end = unwind_find_rule(w->object, offset);
    if (end)
        return end;
    *ret = w->rule;
    cached->serial = w->serial;
    cached->offset = offset;
    cached->rule = *ret;
    return 0;
}

/* Steps `r` out of the code at `address`, in the current mapping, by its unwind table: UNWIND_STEP_*, or an enum
 * unwind_end. */
static __always_inline int unwind_step_by_table(struct unwind_walk *w, struct unwind_registers *r, __u64 address)
{
    struct unwind_rule rule;
    int end = unwind_find_cached_rule(w, address - w->start + w->file_offset, &rule);

    if (end)
        return end;
    if (rule.cfa == UNWIND_CFA_GOROUTINE)
        unwind_find_goroutine();
    return unwind_step(&rule, r, w->interrupted, &w->window);
}

/* Likewise, for any code in the current mapping except a known runtime's JIT code. UNWIND_END_NO_CFI: only the frame
 * pointer may lead on. */
static __always_inline int unwind_step_mapped(struct unwind_walk *w, struct unwind_registers *r, __u64 address)
{
    if (w->object == UNWIND_MAPPING_NO_TABLE_YET)
        return UNWIND_END_NO_TABLE;
    if (w->object != UNWIND_MAPPING_NO_CODE)
        return unwind_step_by_table(w, r, address);
    if (w->walks_code)
        return UNWIND_END_UNSUPPORTED;
    return w->interrupted || w->by_fp ? UNWIND_END_NO_CFI : unwind_step_leaving(r);
}

/* Makes the caller `r` the current frame. `step`: UNWIND_STEP_*. */
static __always_inline int unwind_enter_caller(struct unwind_walk *w, const struct unwind_registers *r, int step,
                                               int by_fp)
{
#ifdef UNWIND_MARKS
    if (w->mark && r->sp > w->mark)
        unwind_pass_marks(w->r.sp, r->sp);
#endif
#ifdef UNWIND_RUNTIME
    if (w->places && by_fp) {
        w->next = *r;
        return UNWIND_AT_PLACE;
    }
#endif
    w->r = *r;
    w->interrupted = step == UNWIND_STEP_INTERRUPTED;
    w->by_fp = by_fp;
    return UNWIND_GO_ON;
}

/* Records the current frame and steps to its caller: UNWIND_GO_ON, or how the walk ended (enum unwind_end). Leaves the
 * step through a runtime's JIT code to unwind_frame_runtime (UNWIND_AT_RUNTIME), and out of a frame that may be an
 * interpreter's to unwind_frame_placed (UNWIND_AT_PLACE). */
__noinline int unwind_frame(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct unwind_registers r;
    struct unwind_walk *w;
    __u64 address;
    int end, by_fp = 0;
    bool is_jit;

    if (!scratch)
        return UNWIND_END_UNSUPPORTED;
    w = &scratch->walk;
    if (w->frames >= UNWIND_MAX_FRAMES)
        return UNWIND_END_TOO_DEEP;
    if (unwind_may_be_trampoline(w))
        unwind_restore_return();
    r = w->r;
    address = r.ip - !w->interrupted;
    is_jit = address - w->code_low < w->code_bytes;
    end = is_jit ? 0 : unwind_enter_mapping(w, address);
    /* The address that a frame pointer led to is not code: it pointed to no frame, and the previous frame was the
     * last. Unless the code was mapped just now. */
    if (end == UNWIND_END_NO_MAPPING && w->by_fp && !w->is_in_flux)
        return UNWIND_END_NO_CFI;
    if (!unwind_record_frame(scratch))
        return UNWIND_END_TOO_DEEP;
    if (end)
        return end;
    if (is_jit)
        return UNWIND_AT_RUNTIME;
    end = unwind_step_mapped(w, &r, address);
    if (end == UNWIND_END_NO_CFI) {
        end = unwind_step_fp(&r, w->by_fp == 1, &w->window);
        by_fp = 1;
    }
    return end >= 0 ? end : unwind_enter_caller(w, &r, end, by_fp);
}

#include "probes/unwind/unwind_copy.bpf.h"

#define UNWIND_FRAMES_A_LOOK 16

/* Some places of unwind_find_interrupted, from data[at] downwards: verified once for all of them. May also examine
 * words before data[], which is harmless. */
__noinline __u64 unwind_find_ucontext(__u32 at, __u64 stack, __u64 bytes)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    const __u64 *ucontext;

    if (!scratch || at >= UNWIND_DATA_WORDS - UNWIND_UCONTEXT_SP / 8)
        return 0;
    ucontext = scratch->data + at;
    for (int n = 0; n < UNWIND_FRAMES_A_LOOK; n++, ucontext -= 2)
        if (ucontext[2] == stack && ucontext[4] == bytes)
            return ucontext[UNWIND_UCONTEXT_SP / 8];
    return 0;
}

/* The thread's stack pointer when a signal interrupted it, for an alternate stack whose end is copied up to
 * data[end]: from the kernel's signal frame, which describes that stack and lies at its top. Its distance from the end
 * depends on the CPU's registers. 0: not found. */
static __always_inline __u64 unwind_find_interrupted(__u32 end, __u64 stack, __u64 bytes)
{
    __u64 found = 0;

    for (__u32 n = 1; n <= UNWIND_SIGNAL_FRAME_BYTES / 16 && found == 0; n += UNWIND_FRAMES_A_LOOK)
        found = unwind_find_ucontext(end - 2 * n, stack, bytes);
    return found;
}

/* Copies up to STACK_COPY_BYTES of the stack from r.sp on behind the frames, as far as it is readable. `top`: start
 * of the main thread's stack; what lies above (arguments, environment) is not a frame. `alternate`: the thread's
 * signal stack; behind its end, the rest is copied from the interrupted stack. */
__noinline int unwind_copy_stack(__u64 top, __u64 alternate, __u64 alternate_bytes)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    __u64 from, to, end = (alternate + alternate_bytes) & ~7ULL;
    __u32 at;

    if (!scratch)
        return 0;
    at = (scratch->walk.base + scratch->walk.frames) * 8;
    from = scratch->walk.r.sp & ~7ULL;
    to = from + STACK_COPY_BYTES;
    top = (top + 7) & ~7ULL;
    if (from < top && top < to)
        to = top;
    if (from >= alternate && from < end && end < to)
        to = end;
    unwind_copy_piece(from, to, at);
    scratch->walk.stack_bytes = scratch->walk.copied;
    scratch->walk.stack_skipped = scratch->walk.copy_skipped;
    if (to != end || from + scratch->walk.copied + scratch->walk.copy_skipped != end)
        return 0;
    at += scratch->walk.copied;
    /* The kernel's frames are aligned, and so is the search. */
    from = unwind_find_interrupted((at - (end & 15)) / 8, alternate, alternate_bytes) & ~7ULL;
    to = from + STACK_COPY_BYTES - 8 - scratch->walk.stack_bytes;
    if (from < top && top < to)
        to = top;
    if (from == 0)
        return 0;
    unwind_copy_piece(from, to, at + 8);
    at /= 8;
    if (scratch->walk.copied == 0 || at >= UNWIND_DATA_WORDS)
        return 0;
    scratch->data[at] = from + scratch->walk.copy_skipped;
    scratch->walk.second_bytes = 8 + scratch->walk.copied;
    return 0;
}

/* Appends the leaf's registers to the copies, for rules that need them; returns their size. */
static __always_inline __u64 unwind_copy_leaf(struct unwind_scratch *scratch)
{
    __u64 at =
        ((__u64)scratch->walk.base + scratch->walk.frames) * 8 + scratch->walk.stack_bytes + scratch->walk.second_bytes;

    UNWIND_SAME_REGISTER(at);
    if (at > sizeof(scratch->data) - sizeof(scratch->walk.window.leaf))
        return 0;
    if (bpf_probe_read_kernel((__u8 *)scratch->data + at, sizeof(scratch->walk.window.leaf), scratch->walk.window.leaf))
        return 0;
    return sizeof(scratch->walk.window.leaf);
}

#define UNWIND_FRAMES_A_LEG 32

/* Some frames of unwind_user: verified once for all of them. */
__noinline int unwind_leg(void)
{
    int end = UNWIND_GO_ON;

    for (int i = 0; i < UNWIND_FRAMES_A_LEG && end == UNWIND_GO_ON; i++) {
        end = unwind_frame();
#ifdef UNWIND_RUNTIME
        if (!no_runtimes && end == UNWIND_AT_RUNTIME)
            end = unwind_frame_runtime();
        else if (!no_runtimes && end == UNWIND_AT_PLACE)
            end = unwind_frame_placed();
#endif
    }
    return end;
}

/* Walks from the registers in the walk. The frames found are in data[walk.base ..]. */
static __always_inline int unwind_user(void)
{
    int end = UNWIND_GO_ON;

    unwind_restore_leaf();
    for (int i = 0; i <= UNWIND_MAX_FRAMES / UNWIND_FRAMES_A_LEG && end == UNWIND_GO_ON; i++)
        end = unwind_leg();
    return end;
}
