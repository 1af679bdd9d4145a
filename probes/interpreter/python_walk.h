/* CPython's frames (python.h): finds the states of a thread, follows their frames, and notes the marks by which native
 * frames are found that run them. Shared by the BPF programs, which walk the current task (python.bpf.h), and user
 * space, which walks a thread that sleeps (src/resolve/interpreter/python_sleeping.c). All loops are bounded, whatever
 * the memory contains: PYTHON_MAX_THREADS threads, INTERPRETER_MAX_ENTRIES frames, EMITTED_CODES_PER_SAMPLE code
 * objects.
 *
 * The thread is identified by its thread pointer: pthread_self(), which the interpreter stores for each of its
 * threads, lies at most a struct pthread below it in every C library (on x86-64 exactly at it). So PID namespaces do
 * not matter.
 *
 * In a process with several interpreters a thread may have a state in each of them, and frames in several: all states
 * with frames are walked one after the other, and the native walk finds out by their marks how the runs are ordered.
 * These states are searched anew each time.
 *
 * The including file defines interpreter_scratch_get, interpreter_read, emitted_code_slot and interpreter_emit as
 * interpreter.bpf.h does, and python_thread_known as python.bpf.h does, before it includes this. */
#pragma once

#include "probes/interpreter/interpreter_scratch.h"

#define PYTHON_MAX_THREADS 1024
#define PYTHON_A_LEG       32

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

#define PYTHON_FRAME_WORDS  10
#define PYTHON_OBJECT_WORDS 14

/* ---- metadata of a code object ---- */

static __always_inline struct python_code *code_of(struct interpreter_scratch *p)
{
    return (struct python_code *)p->code;
}

/* Reads the string that `address` points to; state 0 if it is unreadable. */
static __always_inline struct python_text python_read_text(const struct python_layout *layout, __u64 address, __u8 *to,
                                                           __u32 room)
{
    struct python_text text = {};
    __u64 length, bytes, object;
    __u32 state, kind;

    if (interpreter_read(&object, 8, address) || interpreter_read(&length, 8, object + PYTHON_TEXT_LENGTH) ||
        interpreter_read(&state, 4, object + PYTHON_TEXT_STATE))
        return text;
    text.state = state;
    kind = python_text_width(&text);
    text.state = 0;
    bytes = length * kind;
    if (length > room || bytes > room)
        bytes = room;
    UNWIND_SAME_REGISTER(bytes);
    if (bytes > room)
        return text;
    object += state >> 6 & 1 ? layout->text_ascii : layout->text_compact;
    if (bytes && interpreter_read(to, bytes, object))
        return text;
    text.length = length > 0xffffffffULL ? 0xffffffffU : length;
    text.state = state;
    return text;
}

/* Emits the record of the code object whose constant part is in words. 0: the ring took it. */
__noinline int python_emit_code(__u64 address, __u32 check)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct python_layout *layout;
    struct python_code *code;
    __u64 lines, bytes;

    if (!p)
        return -1;
    layout = &p->layout;
    code = code_of(p);
    code->code = address;
    code->check = check;
    code->instructions = layout->code_instructions;
    if (interpreter_read(&code->first_line, 4, address + layout->code_first_line))
        return -1;
    code->file = python_read_text(layout, address + layout->code_file, code->file_data, PYTHON_FILE_BYTES);
    code->name = python_read_text(layout, address + layout->code_name, code->name_data, PYTHON_NAME_BYTES);
    if (code->file.state == 0 || code->name.state == 0)
        return -1;
    code->lines_bytes = 0;
    code->lines_kind = layout->lines;
    if (interpreter_read(&lines, 8, address + layout->code_lines) ||
        interpreter_read(&bytes, 8, lines + PYTHON_BYTES_SIZE) || bytes > PYTHON_LINES_BYTES) {
        bytes = 0;
        code->lines_kind = PYTHON_LINES_UNKNOWN;
    }
    UNWIND_SAME_REGISTER(bytes);
    if (bytes > 0 && bytes <= PYTHON_LINES_BYTES) {
        if (interpreter_read(code->lines, bytes, lines + PYTHON_BYTES_DATA) == 0)
            code->lines_bytes = bytes;
        else
            code->lines_kind = PYTHON_LINES_UNKNOWN;
    }
    bytes = sizeof(*code) + ((code->lines_bytes + 7) & ~7ULL);
    UNWIND_SAME_REGISTER(bytes);
    if (bytes > sizeof(*code) + PYTHON_LINES_BYTES)
        return -1;
    code->h.size_bytes = bytes;
    return interpreter_emit(&code->h, bytes);
}

/* Computes the check of a code object, which distinguishes it from others at the same address; 0: unreadable. Emits
 * its record if necessary. */
__noinline __u32 python_check(__u64 address)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    __u64 hash, *emitted;
    __u32 check;

    if (!p || interpreter_read(p->words, PYTHON_CHECKED_BYTES, address + p->layout.code_checked))
        return 0;
    hash = p->seed;
#pragma unroll
    for (int i = 0; i < PYTHON_CHECKED_BYTES / 8; i++)
        hash = hash_mix(hash, p->words[i]);
    check = hash >> 32 | 1;
    emitted = emitted_code_slot(p, ((struct record_header *)p->code)->pid, address, check, &hash);
    if (emitted && python_emit_code(address, check) == 0)
        *emitted = hash;
    return check;
}

/* ---- frames ---- */

static __always_inline void python_put_mark(struct interpreter_scratch *p, __u64 address)
{
    __u64 at = p->marks;

    UNWIND_SAME_REGISTER(at);
    if (at >= INTERPRETER_MAX_ENTRIES)
        return;
    p->mark_at[at] = p->entries;
    p->marks = at + 1;
    interpreter_put(p, INTERPRETER_ENTRY_MARK | address, 0, 0);
}

/* The address of mark number `mark` < INTERPRETER_MAX_ENTRIES. */
static __always_inline __u64 python_mark(const struct interpreter_scratch *p, __u64 mark)
{
    __u64 at = p->mark_at[mark];

    UNWIND_SAME_REGISTER(at);
    return at < INTERPRETER_MAX_ENTRIES ? p->entry[at].code & ~INTERPRETER_ENTRY_MARK : 0;
}

#define PYTHON_GO_ON           (-1)

#define PYTHON_WORD(p, offset) ((p)->words[(offset) / 8 & 15])

/* After the last frame of a run: goes to the _PyCFrame of the run before. */
static __always_inline int python_leave_cframe(struct interpreter_scratch *p, __u64 previous)
{
    __u64 next = p->caller[1];

    python_put_mark(p, p->cframe);
    if (next == 0)
        return previous ? INTERPRETER_END_TORN : INTERPRETER_END_WHOLE;
    if (interpreter_read(p->caller, 16, next + p->layout.cframe_current))
        return INTERPRETER_END_BAD_READ;
    p->cframe = next;
    return p->caller[0] == previous ? PYTHON_GO_ON : INTERPRETER_END_TORN;
}

__noinline int python_frame(void)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    __u64 frame, previous, code, distance;
    __u8 owner;

    if (!p)
        return INTERPRETER_END_BAD_READ;
    frame = p->frame;
    if (frame == 0)
        return INTERPRETER_END_WHOLE;
    if (p->entries >= INTERPRETER_MAX_ENTRIES - 1)
        return INTERPRETER_END_TOO_DEEP;
    if (interpreter_read(p->words, PYTHON_FRAME_WORDS * 8, frame))
        return INTERPRETER_END_BAD_READ;
    previous = PYTHON_WORD(p, p->layout.frame_previous);
    code = PYTHON_WORD(p, p->layout.frame_code) & ~7ULL;
    distance = PYTHON_WORD(p, p->layout.frame_instruction) - code;
    owner = ((__u8 *)p->words)[p->layout.frame_owner & 127];
    p->frame = previous;
    if (p->layout.flags & PYTHON_MARKED_FRAMES && owner >= PYTHON_OWNED_BY_CSTACK) {
        python_put_mark(p, frame);
        return PYTHON_GO_ON;
    }
    interpreter_put(p, code, distance > 0xffffffffULL ? 0xffffffffU : distance, python_check(code));
    if (!(p->layout.flags & PYTHON_MARKED_FRAMES) && owner)
        return python_leave_cframe(p, previous);
    return PYTHON_GO_ON;
}

#define PYTHON_UNEVEN (~0ULL)

/* 3.10: marks the CFrame of the frame added last, and goes to the previous one. For a few instructions at an
 * evaluator's start and end there is one CFrame more or less than there are frames: that is detected at the end of the
 * chain. */
static __always_inline void python_mark_own(struct interpreter_scratch *p)
{
    if (p->root == PYTHON_UNEVEN || p->marks >= PYTHON_MAX_OWN_MARKS)
        return;
    if (p->cframe == p->root) {
        p->root = PYTHON_UNEVEN;
        return;
    }
    python_put_mark(p, p->cframe);
    if (interpreter_read(&p->cframe, 8, p->cframe + p->layout.cframe_current))
        p->root = PYTHON_UNEVEN;
}

/* Handles a frame that is an object. */
__noinline int python_object(void)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    __u64 frame, code;
    __u32 last; /* may be -1 */

    if (!p)
        return INTERPRETER_END_BAD_READ;
    frame = p->frame;
    if (frame == 0) {
        if (p->cframe != p->root && p->marks < PYTHON_MAX_OWN_MARKS)
            p->root = PYTHON_UNEVEN;
        return INTERPRETER_END_WHOLE;
    }
    if (p->entries >= INTERPRETER_MAX_ENTRIES - 1)
        return INTERPRETER_END_TOO_DEEP;
    if (interpreter_read(p->words, PYTHON_OBJECT_WORDS * 8, frame))
        return INTERPRETER_END_BAD_READ;
    code = PYTHON_WORD(p, p->layout.frame_code);
    last = *(__u32 *)((__u8 *)p->words + (p->layout.frame_instruction & 124));
    p->frame = PYTHON_WORD(p, p->layout.frame_previous);
    interpreter_put(p, code, p->layout.code_instructions + (p->layout.flags & PYTHON_IN_WORDS ? 2U * last : last),
                    python_check(code));
    if (p->layout.flags & PYTHON_CFRAMES)
        python_mark_own(p);
    return PYTHON_GO_ON;
}

__noinline int python_leg(void)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    int end = PYTHON_GO_ON;

    if (!p)
        return INTERPRETER_END_BAD_READ;
    if (p->layout.flags & PYTHON_FRAME_OBJECTS)
        for (int i = 0; i < PYTHON_A_LEG && end == PYTHON_GO_ON; i++)
            end = python_object();
    else
        for (int i = 0; i < PYTHON_A_LEG && end == PYTHON_GO_ON; i++)
            end = python_frame();
    return end;
}

/* Finds the first frame of the thread. */
static __always_inline int python_first_frame(struct interpreter_scratch *p)
{
    if (interpreter_read(&p->frame, 8, p->thread + p->layout.thread_current))
        return INTERPRETER_END_BAD_READ;
    p->cframe = p->root = 0;
    if (!(p->layout.flags & PYTHON_CFRAMES))
        return PYTHON_GO_ON;
    if (p->layout.flags & PYTHON_FRAME_OBJECTS) {
        p->root = p->thread + p->layout.thread_root;
        return interpreter_read(&p->cframe, 8, p->thread + p->layout.thread_cframe) ? INTERPRETER_END_BAD_READ
                                                                                    : PYTHON_GO_ON;
    }
    p->cframe = p->frame;
    if (interpreter_read(p->caller, 16, p->cframe + p->layout.cframe_current))
        return INTERPRETER_END_BAD_READ;
    p->frame = p->caller[0];
    return PYTHON_GO_ON;
}

/* Walks the frames of one of the thread's states. With several states, the next one must begin at the end of a run, so
 * that no frame is attributed to the wrong state. */
__noinline int python_state(__u32 number)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    __u64 at = number, last;
    int end;

    UNWIND_SAME_REGISTER(at);
    if (!p || at >= PYTHON_MAX_STATES)
        return INTERPRETER_END_BAD_READ;
    p->thread = p->state[at];
    p->of_state[at].next = p->marks;
    end = python_first_frame(p);
    for (int i = 0; i <= INTERPRETER_MAX_ENTRIES / PYTHON_A_LEG && end == PYTHON_GO_ON; i++)
        end = python_leg();
    p->of_state[at].end = p->marks;
    if (p->layout.flags & PYTHON_FRAME_OBJECTS && (p->root == PYTHON_UNEVEN || !(p->layout.flags & PYTHON_CFRAMES)))
        p->flags |= INTERPRETER_TAIL_COUNTED;
    last = p->entries - 1;
    UNWIND_SAME_REGISTER(last);
    if (end == INTERPRETER_END_WHOLE && p->states > 1 && last < INTERPRETER_MAX_ENTRIES &&
        !(p->entry[last].code & INTERPRETER_ENTRY_MARK))
        end = INTERPRETER_END_TOO_DEEP;
    return end == PYTHON_GO_ON ? INTERPRETER_END_TOO_DEEP : end;
}

/* Prepares a walk. `layout`: how the interpreter of the process is read. */
static __always_inline void python_begin(struct interpreter_scratch *p, const struct python_layout *layout)
{
    p->entries = p->marks = p->emitted = p->flags = p->kind = p->states = 0;
    __builtin_memset(p->of_state, 0, sizeof(p->of_state));
    p->end = INTERPRETER_END_WHOLE;
    p->layout = *layout;
}

/* Walks the frames of all states that were found. */
static __always_inline void python_walk_states(struct interpreter_scratch *p)
{
    int end = INTERPRETER_END_WHOLE;

    for (__u32 i = 0; i < PYTHON_MAX_STATES && end == INTERPRETER_END_WHOLE && i < p->states; i++)
        end = python_state(i);
    p->end = end;
    if (p->flags & INTERPRETER_TAIL_COUNTED && p->states > 1) {
        p->entries = 0;
        p->end = INTERPRETER_END_SEVERAL;
    }
}
