/* The memory of a walk over an interpreter's frames, of BPF programs and of user space. The including file defines
 * UNWIND_SAME_REGISTER. */
#pragma once

#include "probes/interpreter/interpreter.h"
#include "probes/python.h"

#define PYTHON_MAX_STATES 4 /* of a thread, with frames */

/* The thread state that was found last for a thread. Written by all CPUs without synchronization: an entry is used
 * only if the process's memory confirms it. */
struct python_thread {
    __u32 pid, tid;
    __u64 thread;       /* 0: it has none */
    __u64 threads_made; /* at the time of the search */
};

struct interpreter_scratch {
    __u64 seed; /* of checks: distinguishes processes */
    __u32 entries, emitted;
    __u32 end;        /* enum interpreter_end */
    __u32 flags;      /* INTERPRETER_TAIL_* */
    __u32 kind;       /* enum interpreter_kind of the entries */
    __u32 names_code; /* another runtime's walk adds entries here (hotspot.bpf.h) */
    /* CPython's walk (python_walk.h). */
    struct python_layout layout;
    __u64 thread_pointer;
    __u64 interpreter, thread, threads_made;
    __u64 frame, cframe;
    __u64 root;                  /* 3.10: of its CFrames; ~0: they do not match the frames */
    __u64 stack_low, stack_high; /* of the thread: its C functions' frames lie in between */
    __u64 caller[2];             /* the next _PyCFrame as it was read: its current frame, its previous */
    __u64 words[16];             /* of the current frame or code object */
    __u32 marks, states;
    __u64 state[PYTHON_MAX_STATES];
    struct {
        __u32 next, end; /* of each state's marks: the next one, and the end */
    } of_state[PYTHON_MAX_STATES];
    __u16 mark_at[INTERPRETER_MAX_ENTRIES]; /* indices of the entries that are marks */
    /* All interpreters. */
    struct interpreter_entry entry[INTERPRETER_MAX_ENTRIES];
    __u64
        code[(sizeof(struct python_code) + PYTHON_LINES_BYTES) / 8]; /* the record of code: CPython's is the largest */
};

static __always_inline void interpreter_put(struct interpreter_scratch *p, __u64 code, __u32 instruction, __u32 check)
{
    __u64 at = p->entries;

    UNWIND_SAME_REGISTER(at);
    if (at >= INTERPRETER_MAX_ENTRIES)
        return;
    p->entry[at].code = code;
    p->entry[at].instruction = instruction;
    p->entry[at].check = check;
    p->entries = at + 1;
}
