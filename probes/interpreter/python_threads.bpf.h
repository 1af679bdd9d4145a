/* Finds the CPython thread state of the current task: the part of the walk (python.bpf.h) that finds where its frames
 * begin, and the state of a walk.
 *
 * The thread is identified by its thread pointer: pthread_self(), which the interpreter stores for each of its
 * threads, lies at most a struct pthread below it in every C library (on x86-64 exactly at it). So PID namespaces do
 * not matter. The result is remembered, also that there is none, until the interpreter has created another thread or
 * the thread is seen in the interpreter's code.
 *
 * In a process with several interpreters a thread may have a state in each of them, and frames in several: all states
 * with frames are walked one after the other, and the native walk finds out by their marks how the runs are ordered.
 * These states are searched anew each time. */
#pragma once

#include "probes/common/vmlinux.h"

#include "probes/python.h"

#define UNWIND_MARKS
#define UNWIND_RUNTIME
/* No monitored process has a runtime with JIT code: the walk through that is skipped and, since Linux 6.8, not even
 * verified. */
const volatile bool no_runtimes = false;

#define UNWIND_TAIL_WORDS                                                                                              \
    (PYTHON_MAX_ENTRIES * sizeof(struct python_entry) / 8 + 1 + GO_LABELS_MAX * sizeof(struct go_label) / 8 +          \
     4) /* for links */
#include "probes/common/task.bpf.h"
#include "probes/unwind/unwind_sample.bpf.h"

#define PYTHON_MAX_THREADS   1024
#define PYTHON_A_LEG         32
#define PYTHON_THREADS_KNOWN 2048
#define PYTHON_MAX_STATES    4    /* of a thread, with frames */
#define PYTHON_PTHREAD_BYTES 4096 /* a struct pthread is smaller, and two threads' are further apart */

/* Size of the ring, which samples share. */
const volatile __u64 ring_bytes = 0;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096); /* set at load */
} records SEC(".maps");

struct python_scratch {
    struct python_layout layout;
    __u64 seed; /* of checks: distinguishes processes */
    __u64 thread_pointer;
    __u64 interpreter, thread, threads_made;
    __u64 frame, cframe;
    __u64 root;                  /* 3.10: of its CFrames; ~0: they do not match the frames */
    __u64 stack_low, stack_high; /* of the thread: its C functions' frames lie in between */
    __u64 caller[2];             /* the next _PyCFrame as it was read: its current frame, its previous */
    __u64 words[16];             /* of the current frame or code object */
    __u32 entries, marks, emitted;
    __u32 end;        /* enum python_end */
    __u32 flags;      /* PYTHON_COUNTED, PYTHON_SEVERAL, PYTHON_PLACED */
    __u32 kind;       /* enum interpreter_kind of the entries */
    __u32 names_code; /* another runtime's walk adds entries here (hotspot.bpf.h) */
    __u32 states;
    __u64 state[PYTHON_MAX_STATES];
    struct {
        __u32 next, end; /* of each state's marks: the next one, and the end */
    } of_state[PYTHON_MAX_STATES];
    __u16 mark_at[PYTHON_MAX_ENTRIES]; /* indices of the entries that are marks */
    struct python_entry entry[PYTHON_MAX_ENTRIES];
    __u64 code[(sizeof(struct python_code) + PYTHON_LINES_BYTES) / 8]; /* the record of a code object */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* set at load: possible CPUs */
    __type(key, __u32);
    __type(value, struct python_scratch);
} python_scratch SEC(".maps");

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

static __always_inline struct python_scratch *python_scratch_get(void)
{
    __u32 cpu = bpf_get_smp_processor_id();

    return bpf_map_lookup_elem(&python_scratch, &cpu);
}

static __always_inline int python_read(void *to, __u32 size, __u64 address)
{
    return bpf_probe_read_user(to, size, (const void *)address);
}

/* ---- thread states ---- */

static __always_inline bool python_is_thread(struct python_scratch *p, __u64 thread)
{
    __u64 id;

    return python_read(&id, 8, thread + p->layout.thread_id) == 0 && p->thread_pointer - id < PYTHON_PTHREAD_BYTES;
}

/* Reads the current interpreter's thread count and its youngest thread. */
static __always_inline int python_first_thread(struct python_scratch *p)
{
    if (python_read(&p->threads_made, 8, p->interpreter + p->layout.interpreter_made) ||
        python_read(&p->thread, 8, p->interpreter + p->layout.interpreter_threads))
        return -1;
    return 0;
}

/* Goes to the next thread: 1 found (p->thread), 0 continue, -1 there is none. A global function without arguments,
 * like those below: the verifier checks it once. */
__noinline int python_next_thread(void)
{
    struct python_scratch *p = python_scratch_get();

    if (!p || p->thread == 0)
        return -1;
    if (python_is_thread(p, p->thread))
        return 1;
    return python_read(&p->thread, 8, p->thread + p->layout.thread_next) ? -1 : 0;
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
static __always_inline bool python_is_state(struct python_scratch *p)
{
    __u64 at = p->thread + p->layout.thread_current, current;

    if ((p->layout.flags & PYTHON_CFRAMES) && (p->layout.flags & PYTHON_FRAME_OBJECTS))
        at = p->thread + p->layout.thread_cframe;
    if (python_read(&current, 8, at))
        return false;
    if (p->layout.flags & PYTHON_CFRAMES)
        return current >= p->stack_low && current < p->stack_high;
    return current && python_is_thread(p, p->thread);
}

static __always_inline int python_next_interpreter(struct python_scratch *p)
{
    if (python_read(&p->interpreter, 8, p->interpreter + p->layout.interpreter_next) || p->interpreter == 0)
        return -1;
    return python_first_thread(p);
}

/* Collects p->thread if it is a state of this thread, and goes to the next one of all interpreters: 0 continue, -1
 * there is none. */
__noinline int python_next_state(void)
{
    struct python_scratch *p = python_scratch_get();
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
    return python_read(&p->thread, 8, p->thread + p->layout.thread_next) ? -1 : 0;
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
static __always_inline bool python_find_thread(struct python_scratch *p, __u64 id)
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

static __always_inline bool python_find_states(struct python_scratch *p, __u64 id)
{
    int end = 0;
    __u64 next;

    if (python_read(&p->interpreter, 8, p->layout.interpreters) ||
        python_read(&next, 8, p->interpreter + p->layout.interpreter_next))
        return false;
    if (next == 0) {
        p->states = 1;
        return python_find_thread(p, id);
    }
    p->flags = PYTHON_SEVERAL;
    if (python_first_thread(p))
        return false;
    for (int i = 0; i < PYTHON_MAX_THREADS / PYTHON_A_LEG && end == 0; i++)
        end = python_collect();
    return p->states > 0;
}
