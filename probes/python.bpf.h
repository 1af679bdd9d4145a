/* The walk of CPython's frames in the kernel half (python.h): finds the state of the thread at hand, follows its frames, and
 * marks which native frame runs which of them. Reads the process's memory only by bpf_probe_read_user: nothing waits, nothing is
 * changed, and what cannot be read ends the walk. All of it is bounded, whatever the memory says: PYTHON_MAX_THREADS
 * threads, PYTHON_MAX_ENTRIES frames, PYTHON_MAX_TOLD code objects.
 *
 * The thread is known by its thread pointer: pthread_self(), which the interpreter keeps for each of its threads, lies no more than
 * a struct pthread below it in every C library (on x86-64 at it). So PID namespaces do not matter. Where it was found is remembered;
 * so is that it was not found, until the interpreter has made another thread or the thread is seen in the interpreter's code. */
#pragma once

#include "vmlinux.h"

#include "python.h"

#define UNWIND_MARKS
#define UNWIND_TAIL_WORDS (PYTHON_MAX_ENTRIES * sizeof(struct python_entry) / 8 + 1 + 4) /* and links' */
#include "unwind_sample.bpf.h"

#define PYTHON_MAX_THREADS   1024
#define PYTHON_A_LEG         32
#define PYTHON_MAX_TOLD      128
#define PYTHON_THREADS_KNOWN 2048
#define PYTHON_PTHREAD_BYTES 4096 /* a struct pthread is smaller; those of two threads are further apart */
#define PYTHON_FRAME_WORDS   10
/* Records are put in order of time: a code object comes before every sample that may already take it for told. */
#define PYTHON_TOLD_AHEAD_NS 10000000

/* The ring that samples go to, too. */
const volatile __u64 ring_bytes = 0;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096); /* set at load */
} records SEC(".maps");

struct python_scratch {
    struct python_layout layout;
    __u64 seed;           /* of checks: tells processes apart */
    __u64 thread_pointer;
    __u64 interpreter, thread, threads_made;
    __u64 frame, cframe;
    __u64 caller[2];      /* the next _PyCFrame as it was read: its current frame, its previous */
    __u64 words[16];      /* of the frame or code object at hand */
    __u32 entries, marks, passed, told;
    __u32 end;    /* enum python_end */
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

/* Where the state of a thread was found last. Written by any CPU: what is found here is believed only where the process's memory
 * says the same. */
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

/* Who has been driven out by another one, or by user space, is told again. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PYTHON_TOLD);
    __type(key, __u32);
    __type(value, __u64);
} python_told SEC(".maps");

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

static __always_inline __u64 python_thread_pointer(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
    return BPF_CORE_READ(task, thread.fsbase);
#else
    return BPF_CORE_READ(task, thread.uw.tp_value);
#endif
}

static __always_inline bool python_is_thread(struct python_scratch *p, __u64 thread)
{
    __u64 id;

    return python_read(&id, 8, thread + p->layout.thread_id) == 0 &&
           p->thread_pointer - id < PYTHON_PTHREAD_BYTES;
}

/* The interpreter at hand's threads: how many it has made, and the youngest. */
static __always_inline int python_first_thread(struct python_scratch *p)
{
    if (python_read(p->words, 16, p->interpreter + p->layout.interpreter_threads - 8))
        return -1;
    p->threads_made = p->words[0];
    p->thread = p->words[1];
    return 0;
}

/* Some threads on: 1 found (p->thread), 0 go on, -1 there is none. */
__noinline int python_search(void)
{
    struct python_scratch *p = python_scratch_get();

    if (!p)
        return -1;
    for (int i = 0; i < PYTHON_A_LEG; i++) {
        if (p->thread == 0) {
            if (python_read(&p->interpreter, 8, p->interpreter + p->layout.interpreter_next) || p->interpreter == 0 ||
                python_first_thread(p))
                return -1;
        } else if (python_is_thread(p, p->thread)) {
            return 1;
        } else if (python_read(&p->thread, 8, p->thread + p->layout.thread_next)) {
            return -1;
        }
    }
    return 0;
}

static __always_inline struct python_thread *python_thread_known(__u64 id)
{
    __u32 at = (__u32)(id * 0x9e3779b1U >> 16) % PYTHON_THREADS_KNOWN;

    return bpf_map_lookup_elem(&python_threads, &at);
}

/* False: the thread runs no Python. */
static __always_inline bool python_find_thread(struct python_scratch *p, __u64 id)
{
    struct python_thread *known = python_thread_known(id);
    __u64 made;
    int found = 0;

    if (!known)
        return false;
    if (known->pid == id >> 32 && known->tid == (__u32)id && known->thread && python_is_thread(p, known->thread)) {
        p->thread = known->thread;
        return true;
    }
    if (python_read(&p->interpreter, 8, p->layout.interpreters) || python_first_thread(p))
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
    return found > 0;
}

/* ---- what a code object says of itself ---- */

static __always_inline struct python_code *code_of(struct python_scratch *p)
{
    return (struct python_code *)p->code;
}

/* Reads the text that `address` points to; 0 characters where it cannot be. */
static __always_inline struct python_text python_read_text(const struct python_layout *layout, __u64 address, __u8 *to,
                                                           __u32 room)
{
    struct python_text text = {};
    __u64 length, bytes, object;
    __u32 state, kind;

    if (python_read(&object, 8, address) || python_read(&length, 8, object + PYTHON_TEXT_LENGTH) ||
        python_read(&state, 4, object + PYTHON_TEXT_STATE))
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

/* Tells of the code object whose checked part is in words: 0 when the ring took it. */
__noinline int python_tell(__u64 address, __u32 check)
{
    struct python_scratch *p = python_scratch_get();
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
    if (python_read(&code->first_line, 4, address + layout->code_first_line))
        return -1;
    code->file = python_read_text(layout, address + layout->code_file, code->file_data, PYTHON_FILE_BYTES);
    code->name = python_read_text(layout, address + layout->code_name, code->name_data, PYTHON_NAME_BYTES);
    if (code->file.state == 0 || code->name.state == 0)
        return -1;
    code->lines_bytes = 0;
    if (python_read(&lines, 8, address + layout->code_lines) || python_read(&bytes, 8, lines + PYTHON_BYTES_SIZE) ||
        bytes > PYTHON_LINES_BYTES)
        bytes = 0;
    UNWIND_SAME_REGISTER(bytes);
    if (bytes > 0 && bytes <= PYTHON_LINES_BYTES &&
        bpf_probe_read_user(code->lines, bytes, (const void *)(lines + PYTHON_BYTES_DATA)) == 0)
        code->lines_bytes = bytes;
    bytes = sizeof(*code) + ((code->lines_bytes + 7) & ~7ULL);
    UNWIND_SAME_REGISTER(bytes);
    if (bytes > sizeof(*code) + PYTHON_LINES_BYTES)
        return -1;
    code->h.size_bytes = bytes;
    return bpf_ringbuf_output(&records, code, bytes, BPF_RB_NO_WAKEUP) ? -1 : 0;
}

/* Of the code object: what tells it from others at its address; 0: it cannot be read. Sees to it that it is told. */
__noinline __u32 python_check(__u64 address)
{
    struct python_scratch *p = python_scratch_get();
    __u64 hash, *told;
    __u32 check, at;

    if (!p || python_read(p->words, PYTHON_CHECKED_BYTES, address + p->layout.code_checked))
        return 0;
    hash = p->seed;
#pragma unroll
    for (int i = 0; i < PYTHON_CHECKED_BYTES / 8; i++)
        hash = python_mix(hash, p->words[i]);
    check = hash >> 32 | 1;
    hash = python_told_hash(bpf_get_current_pid_tgid() >> 32, address, check);
    at = python_told_place(hash);
    told = bpf_map_lookup_elem(&python_told, &at);
    /* Names are told again with later samples; what others are sampled for is not. */
    if (!told || *told == hash || p->told >= PYTHON_MAX_TOLD || bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 4)
        return check;
    p->told++;
    if (python_tell(address, check) == 0)
        *told = hash;
    return check;
}

/* ---- frames ---- */

static __always_inline void python_put(struct python_scratch *p, __u64 code, __u32 instruction, __u32 check)
{
    __u64 at = p->entries;

    UNWIND_SAME_REGISTER(at);
    if (at >= PYTHON_MAX_ENTRIES)
        return;
    p->entry[at].code = code;
    p->entry[at].instruction = instruction;
    p->entry[at].check = check;
    p->entries = at + 1;
}

static __always_inline void python_put_mark(struct python_scratch *p, __u64 address)
{
    __u64 at = p->marks;

    UNWIND_SAME_REGISTER(at);
    if (at >= PYTHON_MAX_ENTRIES)
        return;
    p->mark_at[at] = p->entries;
    p->marks = at + 1;
    python_put(p, PYTHON_MARK | address, 0, 0);
}

#define PYTHON_GO_ON (-1)

#define PYTHON_WORD(p, offset) ((p)->words[(offset) / 8 & 15])

/* With the last frame of a run behind it: to the _PyCFrame of the run before. */
static __always_inline int python_leave_cframe(struct python_scratch *p, __u64 previous)
{
    __u64 next = p->caller[1];

    python_put_mark(p, p->cframe);
    if (next == 0)
        return previous ? PYTHON_END_TORN : PYTHON_END_WHOLE;
    if (python_read(p->caller, 16, next + p->layout.cframe_current))
        return PYTHON_END_BAD_READ;
    p->cframe = next;
    return p->caller[0] == previous ? PYTHON_GO_ON : PYTHON_END_TORN;
}

__noinline int python_frame(void)
{
    struct python_scratch *p = python_scratch_get();
    __u64 frame, previous, code, distance;
    __u8 owner;

    if (!p)
        return PYTHON_END_BAD_READ;
    frame = p->frame;
    if (frame == 0)
        return PYTHON_END_WHOLE;
    if (p->entries >= PYTHON_MAX_ENTRIES - 1)
        return PYTHON_END_TOO_DEEP;
    if (python_read(p->words, PYTHON_FRAME_WORDS * 8, frame))
        return PYTHON_END_BAD_READ;
    previous = PYTHON_WORD(p, p->layout.frame_previous);
    code = PYTHON_WORD(p, p->layout.frame_code) & ~7ULL;
    distance = PYTHON_WORD(p, p->layout.frame_instruction) - code;
    owner = ((__u8 *)p->words)[p->layout.frame_owner & 127];
    p->frame = previous;
    if (p->layout.flags & PYTHON_MARKED_FRAMES && owner >= PYTHON_OWNED_BY_CSTACK) {
        python_put_mark(p, frame);
        return PYTHON_GO_ON;
    }
    python_put(p, code, distance > 0xffffffffULL ? 0xffffffffU : distance, python_check(code));
    if (!(p->layout.flags & PYTHON_MARKED_FRAMES) && owner)
        return python_leave_cframe(p, previous);
    return PYTHON_GO_ON;
}

__noinline int python_leg(void)
{
    int end = PYTHON_GO_ON;

    for (int i = 0; i < PYTHON_A_LEG && end == PYTHON_GO_ON; i++)
        end = python_frame();
    return end;
}

/* Where the thread's frames begin. */
static __always_inline int python_first_frame(struct python_scratch *p)
{
    if (python_read(&p->frame, 8, p->thread + p->layout.thread_current))
        return PYTHON_END_BAD_READ;
    if (!(p->layout.flags & PYTHON_CFRAMES))
        return PYTHON_GO_ON;
    p->cframe = p->frame;
    if (python_read(p->caller, 16, p->cframe + p->layout.cframe_current))
        return PYTHON_END_BAD_READ;
    p->frame = p->caller[0];
    return PYTHON_GO_ON;
}

/* Walks the frames of the task at hand, ahead of its native stack. */
static __always_inline void python_walk(struct unwind_scratch *scratch, struct task_struct *task, __u64 id, __u64 time_ns)
{
    struct python_scratch *p = python_scratch_get();
    __u32 pid = id >> 32;
    struct unwind_process *process = bpf_map_lookup_elem(&unwind_processes, &pid);
    struct python_code *code;
    int end;

    if (!p)
        return;
    p->entries = p->marks = p->passed = p->told = 0;
    p->end = PYTHON_END_WHOLE;
    if (!process || process->python.interpreters == 0)
        return;
    p->layout = process->python;
    p->thread_pointer = python_thread_pointer(task);
    scratch->walk.interpreter_start = p->layout.text_start;
    if (!python_find_thread(p, id))
        return;
    scratch->walk.interpreted = 1;
    p->seed = python_mix(BPF_CORE_READ(task, group_leader, start_time), BPF_CORE_READ(task, self_exec_id));
    p->seed = python_mix(p->seed, pid);
    code = code_of(p);
    __builtin_memset(&code->h, 0, sizeof(code->h));
    code->h.kind = WIRE_PYTHON_CODE;
    code->h.pid = pid;
    code->h.tid = id;
    code->h.time_ns = time_ns - PYTHON_TOLD_AHEAD_NS;
    end = python_first_frame(p);
    for (int i = 0; i <= PYTHON_MAX_ENTRIES / PYTHON_A_LEG && end == PYTHON_GO_ON; i++)
        end = python_leg();
    p->end = end == PYTHON_GO_ON ? PYTHON_END_TOO_DEEP : end;
    if (p->marks)
        scratch->walk.mark = p->entry[p->mark_at[0] % PYTHON_MAX_ENTRIES].code & ~PYTHON_MARK;
}

/* See unwind.bpf.h. A mark that lies in no frame that was walked stays unreached. */
__noinline int unwind_pass_marks(__u64 low, __u64 high)
{
    struct python_scratch *p = python_scratch_get();
    struct unwind_scratch *scratch = unwind_scratch_get();

    if (!p || !scratch)
        return 0;
    for (int i = 0; i < 4; i++) {
        __u64 passed = p->passed, at;

        UNWIND_SAME_REGISTER(passed);
        if (passed >= PYTHON_MAX_ENTRIES || passed >= p->marks || scratch->walk.mark >= high)
            return 0;
        at = p->mark_at[passed];
        UNWIND_SAME_REGISTER(at);
        if (at >= PYTHON_MAX_ENTRIES)
            return 0;
        if (scratch->walk.mark >= low)
            p->entry[at].instruction = scratch->walk.frames;
        p->passed = ++passed;
        scratch->walk.mark = 0;
        if (passed >= PYTHON_MAX_ENTRIES || passed >= p->marks)
            return 0;
        scratch->walk.mark = p->entry[p->mark_at[passed] % PYTHON_MAX_ENTRIES].code & ~PYTHON_MARK;
    }
    return 0;
}

/* After the native walk: a thread that was held for none of the interpreter's has run its code; or what was held for its state runs
 * nothing, because it is none any more: a thread that comes to the interpreter now and then has another one each time. */
static __always_inline void python_doubt(struct unwind_scratch *scratch, __u64 id)
{
    struct python_scratch *p = python_scratch_get();
    struct python_thread *known;

    if (!scratch->walk.in_interpreter || !p)
        return;
    known = python_thread_known(id);
    if (known && (known->thread == 0 || p->entries == 0))
        known->pid = known->tid = 0;
}

/* Puts the entries into the record, which has `size` bytes of the data; how many bytes that is. */
static __always_inline __u64 sample_interpreted(struct unwind_scratch *scratch, struct cpu_stats *stat, __u64 size)
{
    struct python_scratch *p = python_scratch_get();
    struct cpu_sample *s = sample_of(scratch);
    struct python_tail tail = {};
    __u64 at = size - sizeof(*s), bytes;

    if (!p || !scratch->walk.interpreted)
        return 0;
    bytes = (__u64)p->entries * sizeof(p->entry[0]);
    UNWIND_SAME_REGISTER(at);
    UNWIND_SAME_REGISTER(bytes);
    if (at > sizeof(scratch->data) - sizeof(p->entry) - sizeof(tail) || bytes > sizeof(p->entry)) {
        stat->interpreted_lost++;
        return 0;
    }
    if (bytes && bpf_probe_read_kernel((__u8 *)scratch->data + at, bytes, p->entry)) {
        stat->interpreted_lost++;
        return 0;
    }
    tail.entries = p->entries;
    tail.end = p->end;
    at += bytes;
    UNWIND_SAME_REGISTER(at);
    if (at > sizeof(scratch->data) - sizeof(tail))
        return 0;
    bpf_probe_read_kernel((__u8 *)scratch->data + at, sizeof(tail), &tail);
    s->flags |= CPU_SAMPLE_INTERPRETED;
    return bytes + sizeof(tail);
}
