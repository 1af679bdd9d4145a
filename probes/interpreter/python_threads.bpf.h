/* Finds the CPython thread state of the current task: the part of the walk (python.bpf.h) that finds where its frames
 * begin.
 *
 * The thread is identified by its thread pointer: pthread_self(), which the interpreter stores for each of its
 * threads, lies at most a struct pthread below it in every C library (on x86-64 exactly at it). So PID namespaces do
 * not matter. The result is remembered, even if no state was found, until the interpreter has created another thread or
 * the thread is seen in the interpreter's code.
 *
 * In a process with several interpreters a thread may have a state in each of them, and frames in several: all states
 * with frames are walked one after the other, and the native walk finds out by their marks how the runs are ordered.
 * These states are searched anew each time. */
#pragma once

#include "probes/interpreter/interpreter.bpf.h"

#define PYTHON_MAX_THREADS   1024
#define PYTHON_A_LEG         32
#define PYTHON_THREADS_KNOWN 2048

/* The thread state that was found last for a thread. Written by all CPUs without synchronization: an entry is used
 * only if the process's memory confirms it. */
struct python_thread {
    __u32 pid, tid;
    __u64 thread;       /* 0: it has none */
    __u64 threads_made; /* at the time of the search */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PYTHON_THREADS_KNOWN);
    __type(key, __u32);
    __type(value, struct python_thread);
} python_threads SEC(".maps");

/* ---- thread states ---- */

static __always_inline bool python_is_thread(struct interpreter_scratch *p, __u64 thread)
{
    __u64 id;

    return interpreter_read(&id, 8, thread + p->layout.thread_id) == 0 && p->thread_pointer - id < PYTHON_PTHREAD_BYTES;
}

/* Reads the current interpreter's thread count and its youngest thread. */
static __always_inline int python_first_thread(struct interpreter_scratch *p)
{
    if (interpreter_read(&p->threads_made, 8, p->interpreter + p->layout.interpreter_made) ||
        interpreter_read(&p->thread, 8, p->interpreter + p->layout.interpreter_threads))
        return -1;
    return 0;
}

/* Goes to the next thread: 1 found (p->thread), 0 continue, -1 no further thread. A global function without arguments,
 * like those below: the verifier checks it once. */
__noinline int python_next_thread(void)
{
    struct interpreter_scratch *p = interpreter_scratch_get();

    if (!p || p->thread == 0)
        return -1;
    if (python_is_thread(p, p->thread))
        return 1;
    return interpreter_read(&p->thread, 8, p->thread + p->layout.thread_next) ? -1 : 0;
}

/* Advances by some threads. */
__noinline int python_search(void)
{
    int found = 0;

    for (int i = 0; i < PYTHON_A_LEG && found == 0; i++)
        found = python_next_thread();
    return found;
}

/* With several interpreters: whether the thread has frames in this one. Before 3.12 a state may be lent to another
 * thread without adopting its ID: then its innermost evaluator lies on this thread's stack. */
static __always_inline bool python_is_state(struct interpreter_scratch *p)
{
    __u64 at = p->thread + p->layout.thread_current, current;

    if ((p->layout.flags & PYTHON_CFRAMES) && (p->layout.flags & PYTHON_FRAME_OBJECTS))
        at = p->thread + p->layout.thread_cframe;
    if (interpreter_read(&current, 8, at))
        return false;
    if (p->layout.flags & PYTHON_CFRAMES)
        return current >= p->stack_low && current < p->stack_high;
    return current && python_is_thread(p, p->thread);
}

static __always_inline int python_next_interpreter(struct interpreter_scratch *p)
{
    if (interpreter_read(&p->interpreter, 8, p->interpreter + p->layout.interpreter_next) || p->interpreter == 0)
        return -1;
    return python_first_thread(p);
}

/* Collects p->thread if it is a state of this thread, and goes to the next one of all interpreters: 0 continue, -1
 * no further state. */
__noinline int python_next_state(void)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    __u64 at;

    if (!p)
        return -1;
    if (p->thread == 0)
        return python_next_interpreter(p);
    at = p->states;
    UNWIND_SAME_REGISTER(at);
    if (at < PYTHON_MAX_STATES && python_is_state(p)) {
        p->state[at] = p->thread;
        p->states = at + 1;
    }
    return interpreter_read(&p->thread, 8, p->thread + p->layout.thread_next) ? -1 : 0;
}

/* Advances by some threads. */
__noinline int python_collect(void)
{
    int ended = 0;

    for (int i = 0; i < PYTHON_A_LEG && ended == 0; i++)
        ended = python_next_state();
    return ended;
}

static __always_inline struct python_thread *python_thread_known(__u64 id)
{
    __u32 at = (__u32)(id * 0x9e3779b1U >> 16) % PYTHON_THREADS_KNOWN;

    return bpf_map_lookup_elem(&python_threads, &at);
}

/* Finds the thread's state in the only interpreter. False: the thread runs no Python. */
static __always_inline bool python_find_thread(struct interpreter_scratch *p, __u64 id)
{
    struct python_thread *known = python_thread_known(id);
    __u64 made;
    int found = 0;

    if (!known)
        return false;
    if (known->pid == id >> 32 && known->tid == (__u32)id && known->thread && python_is_thread(p, known->thread)) {
        p->state[0] = known->thread;
        return true;
    }
    if (python_first_thread(p))
        return false;
    made = p->threads_made;
    if (known->pid == id >> 32 && known->tid == (__u32)id && known->thread == 0 && known->threads_made == made)
        return false;
    for (int i = 0; i < PYTHON_MAX_THREADS / PYTHON_A_LEG && found == 0; i++)
        found = python_search();
    known->pid = id >> 32;
    known->tid = id;
    known->thread = found > 0 ? p->thread : 0;
    known->threads_made = made;
    p->state[0] = p->thread;
    return found > 0;
}

static __always_inline bool python_find_states(struct interpreter_scratch *p, __u64 id)
{
    int end = 0;
    __u64 next;

    if (interpreter_read(&p->interpreter, 8, p->layout.interpreters) ||
        interpreter_read(&next, 8, p->interpreter + p->layout.interpreter_next))
        return false;
    if (next == 0) {
        p->states = 1;
        return python_find_thread(p, id);
    }
    p->flags = INTERPRETER_TAIL_SEVERAL;
    if (python_first_thread(p))
        return false;
    for (int i = 0; i < PYTHON_MAX_THREADS / PYTHON_A_LEG && end == 0; i++)
        end = python_collect();
    return p->states > 0;
}
