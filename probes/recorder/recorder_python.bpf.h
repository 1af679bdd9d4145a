/* Records which task of asyncio a thread of a Python program runs (RECORDER_TASK), and the task that a thread of a pool
 * has finished work for. Read from the interpreter's memory where the recorder is called anyway: at sends and
 * receives, and where a thread wakes another one by a futex, as a task does when it gives a job to a thread of a pool.
 * A thread that releases the GIL gives no job.
 *
 * A task runs in a context of its own (contextvars), and the thread's state points to it: its address identifies the
 * task, as long as it lives. A thread that has finished the work that a task awaits calls the event loop's method
 * call_soon_threadsafe, as concurrent.futures and anyio do, with the task's future as the first argument; that calls
 * _write_to_self, which sends a byte to the event loop's socket. At this send, two frames up, the future is a local
 * variable. uvloop's method is compiled and writes to an eventfd: there the future is a local variable of the function
 * that calls the method. A future has callbacks, each with the context that it runs in: for a task's wake-up, the
 * task's context. With concurrent.futures that is its second callback, after asyncio's own. A task is a future, too:
 * its callbacks lead to the tasks that wait for it, through the futures of gather, wait, wait_for and of task groups.
 * Memory is not trusted: addresses that were read are only compared.
 *
 * Frames and thread states are found as for samples (interpreter/python.bpf.h), but in the first interpreter only. */
#pragma once

#include "probes/common/task.bpf.h"
#include "probes/python.h"
#include "probes/recorder/recorder_gil.bpf.h"
#include "probes/recorder/recorder_put_task.bpf.h"

#define PYTHON_STATES_SEARCHED 16 /* at most, PYTHON_STATES_PIECES times */
#define PYTHON_STATES_PIECES   16
#define PYTHON_LOCALS_SEARCHED 8
#define PYTHON_CELLS_SEARCHED  4
#define PYTHON_VALUES_SEARCHED 12
#define PYTHON_JOB_FRAMES      32
#define PYTHON_JOB_SEARCHES    3
#define PYTHON_DONE_CALLBACKS  5 /* place among the attributes of concurrent.futures.Future */
#define PYTHON_AWAITED_MAX     6 /* futures and tasks: each completes the next one */
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

static __always_inline const struct python_layout *python_layout_of_process(void)
{
    const __u32 pid = bpf_get_current_pid_tgid() >> 32;
    const struct recorder_program *program = has_tasks ? bpf_map_lookup_elem(&recorder_programs, &pid) : NULL;
    return program ? &program->python : NULL;
}

/* Searches some thread states, from `state` on, for the one of the thread with this thread pointer. Returns that state,
 * the one after those that were searched, or 0: there are no more. A global function: a loop over all states, in the
 * caller, would be most of the verifier's work for each program that calls the recorder. */
__noinline __u64 python_search_states(__u64 state, __u64 thread_pointer)
{
    const struct python_layout *l = python_layout_of_process();
    if (!l)
        return 0;
    for (int i = 0; i < PYTHON_STATES_SEARCHED && state; i++) {
        if (python_is_state_of(l, state, thread_pointer))
            break;
        state = python_word(state + l->thread_next);
    }
    return state;
}

/* The current thread's state, which is not the known one: searches all; 0: it has none. A global function, too. */
__noinline __u64 python_find_state(__u64 thread_pointer)
{
    const struct python_layout *l = python_layout_of_process();
    if (!l) /* also where the maps below do not exist: kernels before 6.8 verify functions that are never called */
        return 0;
    const __u32 tid = bpf_get_current_pid_tgid();
    const struct recorder_task *known = bpf_map_lookup_elem(&recorder_tasks, &tid);
    const __u64 interpreter = python_word(l->interpreters);
    struct recorder_task now = {.id = python_word(interpreter + l->interpreter_made)};
    if (known && !known->address && known->id == now.id)
        return 0;
    __u64 state = python_word(interpreter + l->interpreter_threads);
    for (__u64 i = 0, from = 0; i < PYTHON_STATES_PIECES && state != from; i++) {
        from = state;
        state = python_search_states(from, thread_pointer);
    }
    now.address = state;
    bpf_map_update_elem(&recorder_tasks, &tid, &now, BPF_ANY);
    const struct recorder_python_state key = {.address = state, .pid = bpf_get_current_pid_tgid() >> 32};
    if (state)
        bpf_map_update_elem(&recorder_python_threads, &key, &tid, BPF_ANY);
    return state;
}

/* The current thread's state; 0: it has none. */
static __noinline __u64 python_current_state(const struct python_layout *l)
{
    const __u32 tid = bpf_get_current_pid_tgid();
    const __u64 thread_pointer = task_thread_pointer((struct task_struct *)bpf_get_current_task());
    const struct recorder_task *known = bpf_map_lookup_elem(&recorder_tasks, &tid);
    return known && known->address && python_is_state_of(l, known->address, thread_pointer)
               ? known->address
               : python_find_state(thread_pointer);
}

/* The frame of the function that the thread executes. */
static __always_inline __u64 python_frame(const struct python_layout *l, __u64 state)
{
    const __u64 frame = python_word(state + l->thread_current);
    return (l->flags & PYTHON_CFRAMES) && !(l->flags & PYTHON_FRAME_OBJECTS) ? python_word(frame + l->cframe_current)
                                                                             : frame;
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

/* ---- futures, and the tasks that wait for them ---- */

#define PYTHON_NAME_WORD(a, b, c, d, e, f, g, h)                                                                       \
    ((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | (__u64)(f) << 40 |        \
     (__u64)(g) << 48 | (__u64)(h) << 56)
/* First characters of the names of types. */
#define PYTHON_ASYNCIO   PYTHON_NAME_WORD('_', 'a', 's', 'y', 'n', 'c', 'i', 'o')
#define PYTHON_FUTURE    PYTHON_NAME_WORD('.', 'F', 'u', 't', 'u', 'r', 'e', 0)
#define PYTHON_TASK      PYTHON_NAME_WORD('.', 'T', 'a', 's', 'k', 0, 0, 0)
#define PYTHON_TASK_MASK 0xffffffffffffULL
#define PYTHON_GATHERING PYTHON_NAME_WORD('_', 'G', 'a', 't', 'h', 'e', 'r', 'i') /* _GatheringFuture */
#define PYTHON_BUILT_IN  PYTHON_NAME_WORD('b', 'u', 'i', 'l', 't', 'i', 'n', '_') /* builtin_function_or_method */
#define PYTHON_PARTIAL   PYTHON_NAME_WORD('f', 'u', 'n', 'c', 't', 'o', 'o', 'l') /* functools.partial */
#define PYTHON_FUNCTION  PYTHON_NAME_WORD('f', 'u', 'n', 'c', 't', 'i', 'o', 'n')
#define PYTHON_METHOD    PYTHON_NAME_WORD('m', 'e', 't', 'h', 'o', 'd', 0, 0)
#define PYTHON_GROUP     PYTHON_NAME_WORD('T', 'a', 's', 'k', 'G', 'r', 'o', 'u') /* asyncio's and anyio's TaskGroup */
#define PYTHON_WORK_ITEM PYTHON_NAME_WORD('_', 'W', 'o', 'r', 'k', 'I', 't', 'e') /* of concurrent.futures */
#define PYTHON_WORKER    PYTHON_NAME_WORD('W', 'o', 'r', 'k', 'e', 'r', 'T', 'h') /* WorkerThread of anyio */
#define PYTHON_CELL_NAME PYTHON_NAME_WORD('c', 'e', 'l', 'l', 0, 0, 0, 0)

static __always_inline __u64 python_type_name(__u64 object)
{
    return python_word(python_word(object + PYTHON_TYPE) + PYTHON_TYPE_NAME);
}

/* A global function, as those below that take no layout: the verifier checks it once, and not at each call. */
__noinline bool python_is_future(__u64 object)
{
    const __u64 name = python_type_name(object), word = python_word(name);
    return word == PYTHON_GATHERING || (word == PYTHON_ASYNCIO && python_word(name + 8) == PYTHON_FUTURE);
}

static __always_inline bool python_is_task(__u64 object)
{
    const __u64 name = python_type_name(object);
    return python_word(name) == PYTHON_ASYNCIO && (python_word(name + 8) & PYTHON_TASK_MASK) == PYTHON_TASK;
}

/* Where the attributes of an object without `__slots__` are, in the order of their creation: an array of pointers.
 * Before 3.11 that of its dictionary, if that shares its keys with others. `flags`: of the layout. */
static __always_inline __u64 python_attributes(__u64 object, __u32 flags)
{
    const bool has_cframes = flags & PYTHON_CFRAMES, has_marks = flags & PYTHON_MARKED_FRAMES;
    return flags & PYTHON_FRAME_OBJECTS ? python_word(python_word(object + PYTHON_DICT) + PYTHON_DICT_VALUES)
           : !has_marks                 ? python_word(object - 32)
           : has_cframes                ? python_word(object - 24) + 1 /* the pointer less 1: marked */
                                        : object + 24;
}

/* The future among the attributes of an object; 0: none. */
__noinline __u64 python_future_in(__u64 object, __u32 flags)
{
    const __u64 first = python_attributes(object, flags);
    for (int i = 0; first && i < PYTHON_VALUES_SEARCHED; i++) {
        const __u64 value = python_word(first + 8 * i);
        if (python_is_future(value))
            return value;
    }
    return 0;
}

/* The future that this callback completes, of a task or a future: the callback of gather, wait, wait_for, and of task
 * groups. 0: not known. `flags`: of the layout. */
__noinline __u64 python_completed_by(__u64 callback, __u32 flags)
{
    const bool is_old = (flags & PYTHON_FRAME_OBJECTS) && !(flags & PYTHON_CFRAMES);
    const __u64 name = python_word(python_type_name(callback));
    const __u64 bound = python_word(callback + PYTHON_BOUND_TO);
    __u64 future = 0;
    if (name == PYTHON_PARTIAL) {
        future = python_word(bound + PYTHON_TUPLE_ITEMS);
        return python_is_future(future) ? future : 0;
    }
    if ((name & 0xffffffffffffffULL) == PYTHON_METHOD)
        return python_word(python_type_name(bound)) == PYTHON_GROUP ? python_future_in(bound, flags) : 0;
    if (name != PYTHON_FUNCTION)
        return 0;
    const __u64 cells = python_word(callback + (is_old ? PYTHON_CLOSURE_OLD : PYTHON_CLOSURE)),
                count = python_word(cells + PYTHON_TUPLE_SIZE);
    __u64 group = 0;
    for (int i = 0; i < PYTHON_CELLS_SEARCHED && i < count; i++) {
        const __u64 content = python_word(python_word(cells + PYTHON_TUPLE_ITEMS + 8 * i) + PYTHON_CELL);
        if (python_is_future(content))
            return content;
        if (python_word(python_type_name(content)) == PYTHON_GROUP)
            group = content;
    }
    return group ? python_future_in(group, flags) : 0;
}

/* Whether the callback is the wake-up of a task that waits, which is `*ret`. */
static __always_inline bool python_wakes_task(__u64 callback, __u64 *ret)
{
    *ret = python_word(callback + PYTHON_BOUND_TO);
    return python_word(python_type_name(callback)) == PYTHON_BUILT_IN && python_is_task(*ret);
}

/* The thread completes this future by its job: records that for the task that waits for the future, for the task that
 * waits for that one, and so on. */
static __noinline void record_python_job(const struct python_layout *l, __u64 future, __u8 state, __u32 how,
                                         __u64 now_ns)
{
    const struct recorder_place place = recorder_place();
    for (int i = 0; i < PYTHON_AWAITED_MAX && future && place.cpu; i++) {
        __u64 callback = python_word(future + PYTHON_FUTURE_CALLBACK);
        __u64 context = python_word(future + PYTHON_FUTURE_CONTEXT), task;
        const __u64 list = python_word(future + PYTHON_FUTURE_CALLBACKS);
        bool is_task = python_wakes_task(callback, &task);
        future = is_task ? task : python_completed_by(callback, l->flags);
        if (!future && list) {
            const __u64 second = python_word(python_word(list + PYTHON_LIST_ITEMS));
            callback = python_word(second + PYTHON_TUPLE_ITEMS);
            context = python_word(second + PYTHON_TUPLE_ITEMS + 8);
            is_task = python_wakes_task(callback, &task);
            future = is_task ? task : python_completed_by(callback, l->flags);
        }
        if (is_task && context)
            record_task(&place, context, state, how, RECORDER_NO_SYSCALL, now_ns);
    }
}

/* The future that the thread completes by call_soon_threadsafe; 0: none. */
static __noinline __u64 python_finished_future(const struct python_layout *l, __u64 state)
{
    const __u64 frame = python_word(python_frame(l, state) + l->frame_previous);
    if (!python_is_call_soon_threadsafe(l, frame))
        return 0;
    return python_word(python_word(frame + l->frame_locals + PYTHON_ARGUMENTS * 8) + PYTHON_TUPLE_ITEMS);
}

/* The future among the local variables of this frame; 0: none. */
static __noinline __u64 python_local_future(const struct python_layout *l, __u64 frame)
{
    const __u64 locals = frame + l->frame_locals;
    for (int i = 0; i < PYTHON_LOCALS_SEARCHED; i++) {
        __u64 value = python_word(locals + 8 * i);
        if ((python_word(python_type_name(value)) & 0xffffffffffULL) == PYTHON_CELL_NAME)
            value = python_word(value + PYTHON_CELL);
        if (python_is_future(value))
            return value;
    }
    return 0;
}

/* The future that the thread will complete when it has done its job, for a thread of concurrent.futures or of anyio:
 * one of its functions is a method of the job, or of the thread. 0: none. */
static __noinline __u64 python_job_future(const struct python_layout *l, __u64 state)
{
    __u64 frame = python_frame(l, state), self = 0, kind = 0;
    for (int i = 0; i < PYTHON_JOB_FRAMES && frame; i++) {
        self = python_word(frame + l->frame_locals);
        kind = python_word(python_type_name(self));
        if (kind == PYTHON_WORK_ITEM || kind == PYTHON_WORKER)
            break;
        frame = python_word(frame + l->frame_previous);
    }
    if (kind == PYTHON_WORKER)
        return python_local_future(l, frame);
    if (kind != PYTHON_WORK_ITEM)
        return 0;
    const __u64 future = python_word(python_attributes(self, l->flags));
    const __u64 callbacks = python_word(python_attributes(future, l->flags) + 8 * PYTHON_DONE_CALLBACKS);
    return python_completed_by(python_word(python_word(callbacks + PYTHON_LIST_ITEMS)), l->flags);
}

/* The current thread goes to sleep: for work, if `waits_for_work`. Otherwise records its job, once. */
static __always_inline void record_python_work(const struct python_layout *l, __u64 now_ns, bool waits_for_work)
{
    const __u32 tid = bpf_get_current_pid_tgid();
    const __u64 thread = waits_for_work ? python_current_state(l) : 0;
    struct recorder_task *known = bpf_map_lookup_elem(&recorder_tasks, &tid);
    if (!known)
        return;
    if (waits_for_work) {
        known->searches = thread ? PYTHON_JOB_SEARCHES : 0;
        return;
    }
    if (!known->searches)
        return;
    known->searches--;
    const __u64 future = python_job_future(l, known->address);
    if (!future)
        return;
    known->searches = 0;
    record_python_job(l, future, RECORDER_TASK_WORKS, 0, now_ns);
}

/* ---- the GIL ---- */

static __always_inline __u64 python_gil(const struct python_layout *l)
{
    if (!l->gil)
        return 0;
    return l->flags & PYTHON_GIL_POINTER ? python_word(python_word(l->interpreters) + l->gil)
                                         : l->interpreters + l->gil;
}

/* The current thread goes to sleep for the GIL: records its holder. */
static __noinline void record_python_wait(const struct python_layout *l, __u64 now_ns)
{
    const struct recorder_place place = recorder_place();
    const __u64 current = bpf_get_current_pid_tgid(), gil = python_gil(l);
    __u32 is_locked = 0;
    if (!place.cpu || !gil)
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

static __always_inline bool is_switch(__u32 moment)
{
    return moment == RECORDER_AT_PREEMPTION || moment == RECORDER_AT_FUTEX || moment == RECORDER_AT_SLEEP;
}

/* What the current thread does at this moment. A task's job is finished when the byte that says so arrives, and not
 * when its send ends: what that wakes may long run by then. Before the send the thread releases the GIL: if that wakes
 * the event loop, it may have forgotten who waits for the future when the byte arrives. */
static __noinline int record_python(const struct python_layout *l, __u64 now_ns, __u32 moment, __u64 word)
{
    const struct recorder_place place = recorder_place();
    const __u32 tid = bpf_get_current_pid_tgid();
    struct recorder_task *known = bpf_map_lookup_elem(&recorder_tasks, &tid);
    if (known && known->gil_from_ns && is_switch(moment))
        gil_end_wait(known, now_ns);
    if (moment == RECORDER_AT_SLEEP) {
        record_python_work(l, now_ns, false);
        return 0;
    }
    const bool is_for_gil = word - python_gil(l) < PYTHON_GIL_BYTES;
    if (moment == RECORDER_AT_FUTEX && !is_for_gil) {
        record_python_work(l, now_ns, true);
        return 0;
    }
    if (moment == RECORDER_AT_FUTEX) {
        record_python_wait(l, now_ns);
        known = bpf_map_lookup_elem(&recorder_tasks, &tid);
        if (known)
            gil_begin_wait(known, now_ns);
    }
    const bool leaves = moment == RECORDER_AT_PREEMPTION || moment == RECORDER_AT_FUTEX;
    const bool runs = moment == RECORDER_AT_SOCKET || leaves || (moment == RECORDER_AT_RELEASE && !is_for_gil);
    const __u64 state = python_current_state(l);
    if (!state || !place.cpu)
        return 0;
    if (moment == RECORDER_AT_WRITE) {
        record_python_job(l, python_local_future(l, python_frame(l, state)), RECORDER_TASK_FINISHED, RECORDER_BY_WRITE,
                          now_ns);
        return 0;
    }
    if (!runs) {
        record_python_job(l, python_finished_future(l, state), RECORDER_TASK_FINISHED, 0, now_ns);
        return 0;
    }
    const __u64 context = python_word(state + l->thread_context);
    if (context)
        record_task(&place, context, RECORDER_TASK_RUNS, leaves ? RECORDER_OFF_CPU : 0, RECORDER_NO_SYSCALL, now_ns);
    return 0;
}
