/* Which of CPython's threads the task at hand is: the part of the walk (python.bpf.h) that finds where its frames
 * begin, and what is kept of a walk meanwhile.
 *
 * The thread is known by its thread pointer: pthread_self(), which the interpreter keeps for each of its threads, lies
 * no more than a struct pthread below it in every C library (on x86-64 at it). So PID namespaces do not matter. Where
 * it was found is remembered; so is that it was not found, until the interpreter has made another thread or the thread
 * is seen in the interpreter's code.
 *
 * Where a process has several interpreters a thread may have a state in each of them, and frames in several: all that
 * have some are walked, one after the other, and the native walk tells by their marks which run is where. They are
 * looked for anew each time. */
#pragma once

#include "probes/common/vmlinux.h"

#include "probes/python.h"

#define UNWIND_MARKS
#define UNWIND_RUNTIME
/* Nobody who is looked at has a runtime that makes code: the walk through that is left out, and from Linux 6.8 on not
 * verified either. */
const volatile bool no_runtimes = false;

#define UNWIND_TAIL_WORDS                                                                                              \
    (PYTHON_MAX_ENTRIES * sizeof(struct python_entry) / 8 + 1 + GO_LABELS_MAX * sizeof(struct go_label) / 8 +          \
     4) /* and links' */
#include "probes/common/task.bpf.h"
#include "probes/unwind/unwind_sample.bpf.h"

#define PYTHON_MAX_THREADS   1024
#define PYTHON_A_LEG         32
#define PYTHON_THREADS_KNOWN 2048
#define PYTHON_MAX_STATES    4    /* of a thread, that have frames */
#define PYTHON_PTHREAD_BYTES 4096 /* a struct pthread is smaller; those of two threads are further apart */

/* The ring that samples go to, too. */
const volatile __u64 ring_bytes = 0;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096); /* set at load */
} records SEC(".maps");

struct python_scratch {
    struct python_layout layout;
    __u64 seed; /* of checks: tells processes apart */
    __u64 thread_pointer;
    __u64 interpreter, thread, threads_made;
    __u64 frame, cframe;
    __u64 root;                  /* 3.10: of its CFrames; ~0: they do not go with the frames */
    __u64 stack_low, stack_high; /* of the thread: between them lie its C functions */
    __u64 caller[2];             /* the next _PyCFrame as it was read: its current frame, its previous */
    __u64 words[16];             /* of the frame or code object at hand */
    __u32 entries, marks, told;
    __u32 end;        /* enum python_end */
    __u32 flags;      /* PYTHON_COUNTED, PYTHON_SEVERAL, PYTHON_PLACED */
    __u32 kind;       /* enum interpreter_kind: whose the entries are */
    __u32 names_code; /* another runtime's: what its walk meets is put there (hotspot.bpf.h) */
    __u32 states;
    __u64 state[PYTHON_MAX_STATES];
    struct {
        __u32 next, end; /* of each state's marks: the one that is looked for, and behind the last */
    } of_state[PYTHON_MAX_STATES];
    __u16 mark_at[PYTHON_MAX_ENTRIES]; /* numbers of the entries that are marks */
    struct python_entry entry[PYTHON_MAX_ENTRIES];
    __u64 code[(sizeof(struct python_code) + PYTHON_LINES_BYTES) / 8]; /* the record that tells of one */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* set at load: possible CPUs */
    __type(key, __u32);
    __type(value, struct python_scratch);
} python_scratch SEC(".maps");

/* Where the state of a thread was found last. Written by any CPU: what is found here is believed only where the
 * process's memory says the same. */
struct python_thread {
    __u32 pid, tid;
    __u64 thread;       /* 0: it has none */
    __u64 threads_made; /* when that was so */
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

/* ---- the thread ---- */

static __always_inline bool python_is_thread(struct python_scratch *p, __u64 thread)
{
    __u64 id;

    return python_read(&id, 8, thread + p->layout.thread_id) == 0 && p->thread_pointer - id < PYTHON_PTHREAD_BYTES;
}

/* The interpreter at hand's threads: how many it has made, and the youngest. */
static __always_inline int python_first_thread(struct python_scratch *p)
{
    if (python_read(&p->threads_made, 8, p->interpreter + p->layout.interpreter_made) ||
        python_read(&p->thread, 8, p->interpreter + p->layout.interpreter_threads))
        return -1;
    return 0;
}

/* To the next thread: 1 found (p->thread), 0 go on, -1 there is none. A function of its own, and of nothing, as those
 * below: the verifier checks it once. */
__noinline int python_next_thread(void)
{
    struct python_scratch *p = python_scratch_get();

    if (!p || p->thread == 0)
        return -1;
    if (python_is_thread(p, p->thread))
        return 1;
    return python_read(&p->thread, 8, p->thread + p->layout.thread_next) ? -1 : 0;
}

/* Some threads on. */
__noinline int python_search(void)
{
    int found = 0;

    for (int i = 0; i < PYTHON_A_LEG && found == 0; i++)
        found = python_next_thread();
    return found;
}

/* Of several interpreters: whether the thread has frames in this one. Before 3.12 a state may be lent to another
 * thread, whose id it does not take: there its innermost evaluator lies on this thread's stack. */
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

/* Takes the thread at hand if it is one, and goes to the next one of all interpreters: 0 go on, -1 there is none. */
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

/* Some threads on. */
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

/* Its state in the only interpreter. False: the thread runs no Python. */
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
