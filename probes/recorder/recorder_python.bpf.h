/* Records which task of asyncio a thread of a Python program runs (RECORDER_TASK), and the task that a thread of a pool
 * has finished work for. Read from the interpreter's memory where the recorder is called anyway: at sends and
 * receives, and where a thread wakes another one by a futex, as a task does when it gives a job to a thread of a pool.
 * A thread that releases the GIL gives no job.
 *
 * A task runs in a context of its own (contextvars), and the thread's state points to it: its address identifies the
 * task, as long as it lives. A thread that has finished the work that a task awaits calls the event loop's method
 * call_soon_threadsafe, as concurrent.futures and anyio do, with the task's future as the first argument; that calls
 * _write_to_self, which sends a byte to the event loop's socket. At this send, two frames up, the future is a local
 * variable, and the future has the context of its callback: the task's. With concurrent.futures that is
 * its second callback, after asyncio's own. Other callbacks than a task's have other contexts, which no task runs in.
 * Memory is not trusted: addresses that were read are only compared.
 *
 * Frames and thread states are found as for samples (interpreter/python.bpf.h), but in the first interpreter only. */
#pragma once

#include "probes/common/task.bpf.h"
#include "probes/python.h"
#include "probes/recorder/recorder_put_task.bpf.h"

#define PYTHON_STATES_SEARCHED 256
#define PYTHON_ARGUMENTS       3 /* place of `args` in def call_soon_threadsafe(self, callback, *args, context=None) */

/* 0 where it cannot be read, as the helper leaves it then: a branch less for the verifier to follow. */
static __always_inline __u64 python_word(__u64 address)
{
    __u64 word;
    (void)bpf_probe_read_user(&word, sizeof(word), (const void *)address);
    return word;
}

static __always_inline bool python_is_state_of(const struct python_layout *l, __u64 state, __u64 thread_pointer)
{
    return thread_pointer - python_word(state + l->thread_id) < PYTHON_PTHREAD_BYTES;
}

/* The current thread's state; 0: it has none. */
static __noinline __u64 python_current_state(const struct python_layout *l)
{
    const __u32 tid = bpf_get_current_pid_tgid();
    const __u64 thread_pointer = task_thread_pointer((struct task_struct *)bpf_get_current_task());
    const struct recorder_task *known = bpf_map_lookup_elem(&recorder_tasks, &tid);
    if (known && known->address && python_is_state_of(l, known->address, thread_pointer))
        return known->address;
    const __u64 interpreter = python_word(l->interpreters);
    struct recorder_task now = {.id = python_word(interpreter + l->interpreter_made)};
    if (known && !known->address && known->id == now.id)
        return 0;
    __u64 state = python_word(interpreter + l->interpreter_threads);
    for (int i = 0; i < PYTHON_STATES_SEARCHED && state; i++) {
        if (python_is_state_of(l, state, thread_pointer))
            break;
        state = python_word(state + l->thread_next);
    }
    now.address = state;
    bpf_map_update_elem(&recorder_tasks, &tid, &now, BPF_ANY);
    const struct recorder_python_state key = {.address = state, .pid = bpf_get_current_pid_tgid() >> 32};
    if (state)
        bpf_map_update_elem(&recorder_python_threads, &key, &tid, BPF_ANY);
    return state;
}

static __always_inline __u64 python_caller(const struct python_layout *l, __u64 state)
{
    __u64 frame = python_word(state + l->thread_current);
    if ((l->flags & PYTHON_CFRAMES) && !(l->flags & PYTHON_FRAME_OBJECTS))
        frame = python_word(frame + l->cframe_current);
    return python_word(frame + l->frame_previous);
}

/* Before 3.11 code objects had no qualified names. */
static __always_inline bool python_is_call_soon_threadsafe(const struct python_layout *l, __u64 frame)
{
    const char expected[24] = "call_soon_threadsafe", class[] = "BaseEventLoop.";
    __u64 a[3];
    const __u64 *b = (const __u64 *)expected;
    const __u64 code = python_word(frame + l->frame_code);
    const __u64 name =
        python_word(code + l->code_name) + l->text_ascii + (l->flags & PYTHON_FRAME_OBJECTS ? 0 : sizeof(class) - 1);
    return bpf_probe_read_user(a, sizeof(expected), (const void *)name) == 0 && a[0] == b[0] && a[1] == b[1] &&
           (__u32)a[2] == (__u32)b[2];
}

/* The context of the task that the thread has finished work for; 0: none. */
static __noinline __u64 python_finished_context(const struct python_layout *l, __u64 state)
{
    const __u64 frame = python_caller(l, state);
    if (!python_is_call_soon_threadsafe(l, frame))
        return 0;
    const __u64 arguments = python_word(frame + l->frame_locals + PYTHON_ARGUMENTS * 8);
    const __u64 future = python_word(arguments + PYTHON_TUPLE_ITEMS);
    const __u64 callbacks = python_word(future + PYTHON_FUTURE_CALLBACKS);
    if (!callbacks)
        return python_word(future + PYTHON_FUTURE_CONTEXT);
    const __u64 callback = python_word(python_word(callbacks + PYTHON_LIST_ITEMS));
    return python_word(callback + PYTHON_TUPLE_ITEMS + 8);
}

/* ---- the GIL ---- */

static __always_inline __u64 python_gil(const struct python_layout *l)
{
    if (!l->gil)
        return 0;
    return l->flags & PYTHON_GIL_POINTER ? python_word(python_word(l->interpreters) + l->gil)
                                         : l->interpreters + l->gil;
}

/* The current thread goes to sleep at futex `word`: records the holder of the GIL, if `word` belongs to the GIL. */
static __always_inline void record_python_wait(const struct python_layout *l, __u64 now_ns, __u64 word)
{
    const struct recorder_place place = recorder_place();
    const __u64 current = bpf_get_current_pid_tgid(), gil = python_gil(l);
    __u32 is_locked = 0;
    if (!place.cpu || !gil || word - gil >= PYTHON_GIL_BYTES)
        return;
    (void)python_current_state(l); /* others may wait for this thread later */
    if (bpf_probe_read_user(&is_locked, sizeof(is_locked), (const void *)(gil + PYTHON_GIL_LOCKED)) || !is_locked)
        return;
    const struct recorder_python_state key = {.address = python_word(gil + PYTHON_GIL_HOLDER), .pid = current >> 32};
    const __u32 *holder = bpf_map_lookup_elem(&recorder_python_threads, &key);
    struct recorder_record r = {.time_ns = now_ns,
                                .kind = RECORDER_HELD,
                                .syscall = RECORDER_NO_SYSCALL,
                                .tid = current,
                                .object = gil,
                                .value = current & 0xffffffff00000000ULL};
    if (!holder || *holder == (__u32)current)
        return;
    r.value |= *holder;
    recorder_put_object(&place, &r);
}

/* What the current thread does at this moment. A task's job is finished when the byte that says so arrives, and not
 * when its send ends: what that wakes may long run by then. Before the send the thread releases the GIL: if that wakes
 * the event loop, it may have forgotten who waits for the future when the byte arrives. */
static __noinline int record_python(const struct python_layout *l, __u64 now_ns, __u32 moment, __u64 word)
{
    const struct recorder_place place = recorder_place();
    if (moment == RECORDER_AT_FUTEX) {
        record_python_wait(l, now_ns, word);
        return 0;
    }
    const bool runs =
        moment == RECORDER_AT_SOCKET || (moment == RECORDER_AT_RELEASE && word - python_gil(l) >= PYTHON_GIL_BYTES);
    const __u64 state = python_current_state(l);
    const __u64 context = !state ? 0
                          : runs ? python_word(state + l->thread_context)
                                 : python_finished_context(l, state);
    if (context && place.cpu)
        record_task(&place, context, runs ? RECORDER_TASK_RUNS : RECORDER_TASK_FINISHED, now_ns);
    return 0;
}
