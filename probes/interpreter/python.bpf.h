/* BPF side of CPython's frames (python.h): finds the current thread's state, follows its frames, and marks which
 * native frame runs which of them. Reads the process's memory with bpf_probe_read_user only: never sleeps, changes
 * nothing, and unreadable memory ends the walk. All loops are bounded, whatever the memory contains:
 * PYTHON_MAX_THREADS threads, INTERPRETER_MAX_ENTRIES frames, EMITTED_CODES_PER_SAMPLE code objects. */
#pragma once

#include "probes/interpreter/python_threads.bpf.h"

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
    if (bytes && bpf_probe_read_user(to, bytes, (const void *)object))
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
        if (bpf_probe_read_user(code->lines, bytes, (const void *)(lines + PYTHON_BYTES_DATA)) == 0)
            code->lines_bytes = bytes;
        else
            code->lines_kind = PYTHON_LINES_UNKNOWN;
    }
    bytes = sizeof(*code) + ((code->lines_bytes + 7) & ~7ULL);
    UNWIND_SAME_REGISTER(bytes);
    if (bytes > sizeof(*code) + PYTHON_LINES_BYTES)
        return -1;
    code->h.size_bytes = bytes;
    return bpf_ringbuf_output(&records, code, bytes, BPF_RB_NO_WAKEUP) ? -1 : 0;
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
    emitted = emitted_code_slot(p, bpf_get_current_pid_tgid() >> 32, address, check, &hash);
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
    __s32 last;

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
    last = *(__s32 *)((__u8 *)p->words + (p->layout.frame_instruction & 124));
    p->frame = PYTHON_WORD(p, p->layout.frame_previous);
    interpreter_put(p, code, p->layout.code_instructions + (p->layout.flags & PYTHON_IN_WORDS ? 2 * last : last),
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
    int end = INTERPRETER_END_WHOLE;

    if (!p)
        return;
    p->entries = p->marks = p->emitted = p->flags = p->kind = p->states = 0;
    __builtin_memset(p->of_state, 0, sizeof(p->of_state));
    p->end = INTERPRETER_END_WHOLE;
    if (process->interpreters.python.interpreters == 0)
        return;
    p->layout = process->interpreters.python;
    p->thread_pointer = task_thread_pointer(task);
    scratch->walk.interpreter_start = p->layout.text_start;
    p->stack_low = scratch->walk.r.sp;
    p->stack_high = p->thread_pointer > p->stack_low ? p->thread_pointer : BPF_CORE_READ(task, mm, start_stack);
    if (!python_find_states(p, id))
        return;
    scratch->walk.interpreted = 1;
    interpreter_begin_codes(p, task, id, time_ns, RECORD_PYTHON_CODE);
    for (__u32 i = 0; i < PYTHON_MAX_STATES && end == INTERPRETER_END_WHOLE && i < p->states; i++)
        end = python_state(i);
    p->end = end;
    if (p->flags & INTERPRETER_TAIL_COUNTED) {
        if (p->states > 1) {
            p->entries = 0;
            p->end = INTERPRETER_END_SEVERAL;
        }
        return;
    }
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
