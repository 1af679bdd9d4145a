/* Unwind tables as the BPF programs search them and as user space builds them (src/resolve/unwind/cfi.c): from a file
 * offset to the rule that finds the caller's registers. Derived from .eh_frame (DWARF 5, section 6.4; the x86-64
 * psABI's register numbers).
 *
 * A row means: from this file offset on, this rule holds. The rows of an object (an ELF file, by build ID) are sorted,
 * split into pages of 512 bytes, and stored in one inner array map per object, so that memory is freed with the
 * object's last process:
 *
 *     value 0                 struct unwind_object_header
 *     values 1 .. pages       struct unwind_page, sorted by `base`
 *     values after them       struct unwind_rule_page: the distinct rules, which pages refer to by number
 *
 * A row takes 4 bytes: offsets are 16-bit distances from the page's base, rules are 16-bit numbers. */
#pragma once

#define UNWIND_VALUE_BYTES  512
#define UNWIND_PAGE_ROWS    126
#define UNWIND_RULES_A_PAGE 32
#define UNWIND_MAX_PAGES    65536 /* 8 million rows; a larger object is rejected and counted */
#define UNWIND_MAX_RULES    65535

/* How to find the canonical frame address (CFA): the caller's stack pointer. */
enum unwind_cfa {
    UNWIND_CFA_NONE = 0,     /* code without rules (a gap between functions): try the frame pointer, else stop */
    UNWIND_CFA_END,          /* the outermost function: return address undefined. The walk is complete. */
    UNWIND_CFA_SP,           /* sp + cfa_offset */
    UNWIND_CFA_FP,           /* fp + cfa_offset */
    UNWIND_CFA_REGISTER,     /* x86-64: other register + cfa_offset: rbx (3, tracked in all frames, because the dynamic
                                linker needs it) or, in an interrupted frame, any (functions about to
                                realign, assembly) */
    UNWIND_CFA_SP_DEREF,     /* *(sp + cfa_offset) + cfa_add */
    UNWIND_CFA_FP_DEREF,     /* *(fp + cfa_offset) + cfa_add: functions that realign their stack */
    UNWIND_CFA_PLT,          /* x86-64 PLT stub: sp + 8 + ((ip & 15) >= cfa_offset ? 8 : 0) */
    UNWIND_CFA_SIGNAL,       /* rt_sigreturn trampoline: the kernel's ucontext is at sp (+ cfa_offset) */
    UNWIND_CFA_SP_INDEXED,   /* x86-64, interrupted frames: *(sp + cfa_offset + 8 * register) + cfa_add (assembly that
                                keeps the old stack pointer behind an array) */
    UNWIND_CFA_GOROUTINE,    /* x86-64: Go's runtime on its thread's stack, working for a goroutine: continue with the
                                goroutine's saved registers (struct unwind_goroutine). With an ra_offset: its sp +
                                cfa_offset; without: at its ip, which is not on any stack */
    UNWIND_CFA_SP_SCHEDULER, /* as UNWIND_CFA_SP: a Go function that has left one goroutine and looks for another */
    UNWIND_CFA_UNSUPPORTED,  /* an expression that rows cannot express; counted */
};

/* Where the caller's frame pointer (rbp, x29) is. */
enum unwind_fp {
    UNWIND_FP_SAME = 0,
    UNWIND_FP_AT_CFA, /* saved at CFA + fp_offset */
    UNWIND_FP_AT_FP,  /* saved at fp + fp_offset (realigned stacks) */
    UNWIND_FP_UNDEFINED,
};

struct unwind_rule {
    __u8 cfa;          /* enum unwind_cfa */
    __u8 fp;           /* enum unwind_fp */
    __u8 cfa_register; /* DWARF number, for UNWIND_CFA_REGISTER; or see ra_offset */
    __u8 bx_words;     /* x86-64: caller's rbx is saved at CFA - 8 * bx_words; 0: still in rbx (or not expressible) */
    __s32 cfa_offset;
    __s32 fp_offset;
    __s16 ra_offset; /* return address at CFA + ra_offset; -8 on x86-64. 0, in an interrupted frame only: still in x30
                        on arm64, in the register cfa_register on x86-64 (vfork pops it off the stack) */
    __s16 cfa_add;
};
_Static_assert(sizeof(struct unwind_rule) == 16, "table format");

struct unwind_page {
    __u32 base; /* file offset of the first row */
    __u16 rows;
    __u16 reserved;
    __u16 distance[UNWIND_PAGE_ROWS]; /* file offset of a row, minus base; ascending, [0] is 0 */
    __u16 rule[UNWIND_PAGE_ROWS];
};
_Static_assert(sizeof(struct unwind_page) == UNWIND_VALUE_BYTES, "table format");

struct unwind_rule_page {
    struct unwind_rule rules[UNWIND_RULES_A_PAGE];
};
_Static_assert(sizeof(struct unwind_rule_page) == UNWIND_VALUE_BYTES, "table format");

struct unwind_object_header {
    __u32 pages;
    __u32 rules;
    __u32 index_shift; /* index[i] is the base of page (i << index_shift): one value read instead of log2(126) */
    __u32 index_count;
    __u32 index[124];
};
_Static_assert(sizeof(struct unwind_object_header) == UNWIND_VALUE_BYTES, "table format");

/* The user registers that a walk carries from frame to frame. */
struct unwind_registers {
    __u64 ip, sp, fp;
    __u64 lr;        /* arm64: x30, valid in an interrupted frame */
    __u64 bx;        /* x86-64: rbx */
    __u64 ucontext;  /* x86-64, in a frame interrupted by a signal: address of its saved registers; else 0 */
    __u64 goroutine; /* enum unwind_goroutine_walk */
};

/* How far a walk has come with Go's stacks. */
enum unwind_goroutine_walk {
    UNWIND_GOROUTINE_AHEAD,  /* nothing found yet */
    UNWIND_GOROUTINE_LEFT,   /* passed the scheduler: the thread works for no goroutine */
    UNWIND_GOROUTINE_JOINED, /* on the stack of the goroutine that the thread works for: there is no other */
};

/* The saved registers of the goroutine that the current thread works for. */
enum unwind_goroutine_state {
    UNWIND_GOROUTINE_UNKNOWN,
    UNWIND_GOROUTINE_NONE, /* it works for none */
    UNWIND_GOROUTINE_FOUND,
};

struct unwind_goroutine {
    __u64 state; /* enum unwind_goroutine_state */
    __u64 ip, sp, fp;
};

#define UNWIND_LEAF_REGISTERS 16 /* x86-64: registers of the interrupted thread, by DWARF number */
