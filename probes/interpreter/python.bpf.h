/* BPF side of CPython's frames (python_walk.h): walks the current thread's, and marks which native frame runs which of
 * them. Reads the process's memory with bpf_probe_read_user only: never sleeps, changes nothing, and unreadable memory
 * ends the walk.
 *
 * The thread's state is remembered, even if no state was found, until the interpreter has created another thread or
 * the thread is seen in the interpreter's code. */
#pragma once

#include "probes/interpreter/interpreter.bpf.h"

#define PYTHON_THREADS_KNOWN 2048

/* Written by all CPUs without synchronization: an entry is used only if the process's memory confirms it. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PYTHON_THREADS_KNOWN);
    __type(key, __u32);
    __type(value, struct python_thread);
} python_threads SEC(".maps");

static __always_inline struct python_thread *python_thread_known(__u64 id)
{
    __u32 at = (__u32)(id * 0x9e3779b1U >> 16) % PYTHON_THREADS_KNOWN;

    return bpf_map_lookup_elem(&python_threads, &at);
}

#include "probes/interpreter/python_walk.h"

/* The lowest mark not yet reached; 0: none. */
static __always_inline __u64 python_next_mark(const struct interpreter_scratch *p)
{
    __u64 lowest = 0;

    for (int i = 0; i < PYTHON_MAX_STATES; i++) {
        __u64 next = p->of_state[i].next, mark;

        UNWIND_SAME_REGISTER(next);
        if (next >= p->of_state[i].end || next >= INTERPRETER_MAX_ENTRIES)
            continue;
        mark = python_mark(p, next);
        if (!lowest || mark < lowest)
            lowest = mark;
    }
    return lowest;
}

/* Walks the frames of the current task, before its native stack. */
static __always_inline void python_walk(struct unwind_scratch *scratch, const struct unwind_process *process,
                                        struct task_struct *task, __u64 id, __u64 time_ns)
{
    struct interpreter_scratch *p = interpreter_scratch_get();

    if (!p)
        return;
    python_begin(p, &process->interpreters.python);
    if (process->interpreters.python.interpreters == 0)
        return;
    p->thread_pointer = task_thread_pointer(task);
    scratch->walk.interpreter_start = p->layout.text_start;
    p->stack_low = scratch->walk.r.sp;
    p->stack_high = p->thread_pointer > p->stack_low ? p->thread_pointer : BPF_CORE_READ(task, mm, start_stack);
    if (!python_find_states(p, id))
        return;
    scratch->walk.interpreted = 1;
    interpreter_begin_codes(p, task, id, time_ns, RECORD_PYTHON_CODE);
    python_walk_states(p);
    if (!(p->flags & INTERPRETER_TAIL_COUNTED))
        scratch->walk.mark = python_next_mark(p);
}

/* Passes the marks of one state. A mark that lies in no walked frame stays unreached. */
__noinline int python_pass(__u32 number, __u64 low, __u64 high)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct unwind_scratch *scratch = unwind_scratch_get();
    __u64 state = number;

    UNWIND_SAME_REGISTER(state);
    if (!p || !scratch || state >= PYTHON_MAX_STATES)
        return 0;
    for (int i = 0; i < 4; i++) {
        __u64 next = p->of_state[state].next, at, mark;

        UNWIND_SAME_REGISTER(next);
        if (next >= INTERPRETER_MAX_ENTRIES || next >= p->of_state[state].end)
            return 0;
        mark = python_mark(p, next);
        if (mark >= high)
            return 0;
        at = p->mark_at[next];
        UNWIND_SAME_REGISTER(at);
        if (at >= INTERPRETER_MAX_ENTRIES)
            return 0;
        if (mark >= low)
            p->entry[at].instruction = scratch->walk.frames;
        p->of_state[state].next = next + 1;
    }
    return 0;
}

/* See unwind.bpf.h. */
__noinline int unwind_pass_marks(__u64 low, __u64 high)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct unwind_scratch *scratch = unwind_scratch_get();

    if (!p || !scratch)
        return 0;
    for (__u32 i = 0; i < PYTHON_MAX_STATES && i < p->states; i++)
        python_pass(i, low, high);
    scratch->walk.mark = python_next_mark(p);
    return 0;
}

/* Called after the native walk. Drops the remembered thread state if a thread without one has run the interpreter's
 * code, or if the remembered state has no frames because it was freed: a thread that enters the interpreter now and
 * then gets another state each time. */
static __always_inline void python_recheck_thread(struct unwind_scratch *scratch, __u64 id)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct python_thread *known;

    if (!scratch->walk.in_interpreter || !p)
        return;
    known = python_thread_known(id);
    if (known && (known->thread == 0 || p->entries == 0))
        known->pid = known->tid = 0;
}
