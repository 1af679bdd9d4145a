/* V8's frames in the kernel half (v8.h): which of the native frames are JavaScript's, and of which function.
 *
 * The function lies beneath the frame pointer, and above it a context; frames of V8's own (stubs, exits to C++,
 * WebAssembly, regular expressions) have a small integer in the context's place. Objects are believed by their types
 * alone: context, SharedFunctionInfo, ScopeInfo. They move when garbage is collected, and another function may come to
 * lie at the same address: it has another check, which is made of what a function keeps (where it begins and ends, its
 * script's number, the hash of its name).
 *
 * Of the leaf alone it is not known whether the frame pointer is its own yet, or still: before its frame is made and
 * after it was left it is its caller's. Then the function is on the stack all the same, just beneath a native frame
 * (PYTHON_PLACED_CALLER). */
#pragma once

#include "probes/interpreter/v8_text.bpf.h"

#define V8_MAX_LOCALS 4096

static __always_inline int v8_is_small(__u64 word)
{
    return (__u32)word == 0;
}

/* ---- which function ---- */

/* Where a function begins and ends and what it is called, by its ScopeInfo, which by its type it is: 0, or -1 when it
 * is none. */
__noinline int v8_scope(__u64 scope)
{
    struct v8_scratch *v = v8_scratch_get();
    __u32 is_first, flags, at = 0;
    __u64 locals;

    if (!v || python_read(v->words, 40, scope - V8_TAG + v->layout.scope_flags))
        return -1;
    is_first = v->layout.flags & V8_POSITIONS_FIRST;
    flags = is_first ? v->words[0] : v->words[0] >> 32;
    locals = v->words[2];
    if (!v8_is_small(locals) || locals >> 32 > V8_MAX_LOCALS)
        return -1;
    locals >>= 32;
    v->start = v->words[3];
    v->end = v->words[4];
    locals = locals >= V8_MANY_LOCALS ? locals + 1 : 2 * locals;
    locals += V8_HAS_CLASS_VARIABLE(flags);
    if (python_read(v->words, 40, scope - V8_TAG + v->layout.scope_variables + locals * 8))
        return -1;
    v->name = v->inferred_name = 0;
    if (V8_HAS_NAME(flags)) {
        v->name = v->words[0];
        at = 2;
    }
    if (V8_HAS_INFERRED_NAME(flags))
        v->inferred_name = v->words[at++ & 7];
    if (!is_first) {
        v->start = v->words[at & 7];
        v->end = v->words[(at + 1) & 7];
    }
    if (!v8_is_small(v->start) || !v8_is_small(v->end))
        return -1;
    v->start >>= 32;
    v->end >>= 32;
    return v->end >= v->start ? 0 : -1;
}

/* Hash and length of a name. A small integer stands for none. */
static __always_inline int v8_name_hash(__u64 name, __u64 *ret)
{
    *ret = 0;
    if ((name & V8_TAG_MASK) != V8_TAG)
        return 0;
    return python_read(ret, 8, name - V8_TAG + 8);
}

/* Of the function of a frame: what tells it from others at its SharedFunctionInfo's address; 0: it cannot be read, 1:
 * it is none of a script's. */
__noinline __u32 v8_check(__u64 shared)
{
    struct python_scratch *p = python_scratch_get();
    struct v8_scratch *v = v8_scratch_get();
    __u64 scope, script, hash, word;
    int type;

    if (!p || !v || v8_type(shared) != v->layout.shared_type ||
        python_read(&scope, 8, shared - V8_TAG + v->layout.shared_scope) ||
        python_read(&script, 8, shared - V8_TAG + v->layout.shared_script))
        return 0;
    type = v8_type(scope);
    if (type >= 0 && !(type & v->layout.not_string))
        return 1; /* of V8's own: it has a name and nothing else */
    if (type != v->layout.scope_type || v8_scope(scope))
        return 0;
    v->script = script;
    if ((script & V8_TAG_MASK) != V8_TAG || python_read(&word, 8, script - V8_TAG + v->layout.script_id))
        return 0;
    hash = hash_mix(p->seed, word);
    hash = hash_mix(hash, v->start << 32 | v->end);
    if (v8_name_hash(v->name, &word))
        return 0;
    hash = hash_mix(hash, word);
    return hash >> 32 | 2;
}

/* ---- what it says of itself ---- */

/* The text at hand into the record. */
static __always_inline struct v8_text v8_put_text(struct v8_scratch *v, __u8 *to, __u64 room)
{
    struct v8_text text = {};
    __u64 bytes = v->used;

    if (bytes > room)
        bytes = room;
    UNWIND_SAME_REGISTER(bytes);
    if (bytes > room || (bytes && bpf_probe_read_kernel(to, bytes, v->text)))
        return text;
    text.width = v->width ?: 1;
    text.length = bytes / text.width;
    return text;
}

/* A function without a name of its own may have one that V8 made up of where it is assigned to. */
static __always_inline struct v8_text v8_put_name(struct v8_scratch *v, struct v8_code *code)
{
    struct v8_text none = {}, empty = {.width = 1};
    int type;

    if ((v->name & V8_TAG_MASK) == V8_TAG) {
        if (v8_string(v->name, V8_NAME_BYTES / 2, 0))
            return none;
        if (v->used)
            return v8_put_text(v, code->name_data, V8_NAME_BYTES);
    }
    type = v8_type(v->inferred_name);
    if (type < 0 || type & v->layout.not_string) /* undefined */
        return empty;
    if (v8_string(v->inferred_name, V8_NAME_BYTES / 2, 0))
        return none;
    return v8_put_text(v, code->name_data, V8_NAME_BYTES);
}

/* Tells of the function that was looked at last: 0 when the ring took it. */
__noinline int v8_tell(__u64 shared, __u32 check)
{
    struct python_scratch *p = python_scratch_get();
    struct v8_scratch *v = v8_scratch_get();
    struct v8_text none = {};
    struct v8_code *code;
    __u64 word;
    int line;

    if (!p || !v)
        return -1;
    code = (struct v8_code *)p->code;
    code->code = shared;
    code->check = check;
    code->file = none;
    code->line = 0;
    if (v8_type(v->script) == v->layout.script_type) {
        if (python_read(&word, 8, v->script - V8_TAG + v->layout.script_source))
            return -1;
        line = v8_line(word, v->start);
        if (line < 0)
            return -1;
        code->line = line;
        if (python_read(&word, 8, v->script - V8_TAG + v->layout.script_name))
            return -1;
        if (v8_string(word, V8_FILE_BYTES / 2, 0) == 0)
            code->file = v8_put_text(v, code->file_data, V8_FILE_BYTES);
    }
    code->name = v8_put_name(v, code);
    code->h.size_bytes = sizeof(*code);
    return bpf_ringbuf_output(&records, code, sizeof(*code), BPF_RB_NO_WAKEUP) ? -1 : 0;
}

/* Notes that an entry's function is to be told: it was not, or its place in the table is another's. */
static __always_inline void v8_note_untold(struct v8_scratch *v, __u32 entry, __u64 shared, __u32 check)
{
    __u64 hash = python_told_hash(bpf_get_current_pid_tgid() >> 32, shared, check), *told;
    __u32 place = python_told_place(hash);

    told = bpf_map_lookup_elem(&python_told, &place);
    if (!told || *told == hash || v->untold_count >= PYTHON_MAX_TOLD)
        return;
    v->untold[v->untold_count & (PYTHON_MAX_TOLD - 1)] = entry;
    v->untold_count++;
}

/* Tells of an entry's function: 0, or -1 when this sample is to tell no more. */
__noinline int v8_tell_entry(__u32 number)
{
    struct python_scratch *p = python_scratch_get();
    struct python_entry *entry;
    __u64 hash, *told, at = number;
    __u32 place;

    UNWIND_SAME_REGISTER(at);
    if (!p || at >= PYTHON_MAX_ENTRIES || bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 4 * 3)
        return -1;
    entry = &p->entry[at];
    hash = python_told_hash(bpf_get_current_pid_tgid() >> 32, entry->code, entry->check);
    place = python_told_place(hash);
    told = bpf_map_lookup_elem(&python_told, &place);
    if (told && *told != hash && v8_check(entry->code) == entry->check && v8_tell(entry->code, entry->check) == 0)
        *told = hash;
    return 0;
}

/* Tells of those that were noted. After the walk, whose calls are as deep as calls can be. */
__noinline int v8_tell_all(void)
{
    struct v8_scratch *v = v8_scratch_get();

    if (!v)
        return 0;
    for (__u32 i = 0; i < PYTHON_MAX_TOLD && i < v->untold_count; i++)
        if (v8_tell_entry(v->untold[i]))
            break;
    return 0;
}

/* ---- frames ---- */

#if defined(__TARGET_ARCH_x86)
#define V8_BYTES_BEHIND 24          /* what follows where a frame is left, up to the return */
#define V8_BYTES_AHEAD  32          /* what comes before a frame is made */
#define V8_ENTER_1      0xe5894855U /* push rbp; mov rbp, rsp */
#define V8_ENTER_2      0xec8b4855U /* the same, written in the other way */
#define V8_LEAVE_1      0x5de58b48U /* mov rsp, rbp; pop rbp */
#define V8_LEAVE_2      0x5dec8948U
#define V8_LEAVE_JUMP   0x006d8b48U /* mov rbp, [rbp]: a call in place of the function's own return */

/* Whether the frame pointer may not be that of the code at `ip`: it stands before where it makes its frame, or behind
 * where it leaves it. */
__noinline int v8_is_between(__u64 ip)
{
    struct v8_scratch *v = v8_scratch_get();
    const __u8 *bytes;
    int found = 0;

    if (!v || bpf_probe_read_user(v->words, 64, (const void *)(ip - V8_BYTES_BEHIND)))
        return 1;
    bytes = (const __u8 *)v->words;
    for (int i = 0; i < V8_BYTES_BEHIND + V8_BYTES_AHEAD; i++) {
        __u32 word = bytes[i] | bytes[i + 1] << 8 | bytes[i + 2] << 16 | (__u32)bytes[i + 3] << 24;

        if (i > V8_BYTES_BEHIND - 4)
            found |= word == V8_ENTER_1 || word == V8_ENTER_2;
        else
            found |= word == V8_LEAVE_1 || word == V8_LEAVE_2 || word == V8_LEAVE_JUMP;
    }
    return found;
}
#else
__noinline int v8_is_between(__u64 ip)
{
    return 1;
}
#endif

/* The frame recorded last may be of a function of a script's. */
__noinline int v8_place(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct python_scratch *p = python_scratch_get();
    struct v8_scratch *v = v8_scratch_get();
    __u64 function, shared, at;
    __u32 check, place;
    int type;

    if (!scratch || !p || !v)
        return 0;
    at = scratch->walk.r.fp + v->layout.frame_function;
    /* Of the leaf, what is not pushed yet is of a function before. */
    if ((scratch->walk.interrupted && scratch->walk.r.sp > at) || python_read(v->words, 16, at))
        return 0;
    function = v->words[0];
    type = v8_type(v->words[1]);
    if (type < v->layout.context_first || type > v->layout.context_last || (function & V8_TAG_MASK) != V8_TAG)
        return 0;
    if (python_read(&shared, 8, function - V8_TAG + v->layout.function_shared))
        return 0;
    check = v8_check(shared);
    if (check == 1)
        return 0;
    place = scratch->walk.frames;
    if (scratch->walk.interrupted &&
        (scratch->walk.object != UNWIND_MAPPING_NO_CODE || v8_is_between(scratch->walk.r.ip)))
        place |= PYTHON_PLACED_CALLER;
    if (check)
        v8_note_untold(v, p->entries, shared, check);
    python_put(p, shared, place, check);
    return 0;
}

/* See unwind.bpf.h. */
__noinline int unwind_frame_placed(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct unwind_walk *w;

    if (!scratch)
        return UNWIND_END_UNSUPPORTED;
    v8_place();
    w = &scratch->walk;
    w->r = w->next;
    w->interrupted = 0;
    w->by_fp = 1;
    return UNWIND_GO_ON;
}

/* Has the native walk look at its frames. */
static __always_inline void v8_begin(struct unwind_scratch *scratch, const struct unwind_process *process,
                                     struct task_struct *task, __u64 id, __u64 time_ns)
{
    struct python_scratch *p = python_scratch_get();
    struct v8_scratch *v = v8_scratch_get();

    if (!p || !v)
        return;
    p->entries = p->states = 0;
    p->flags = PYTHON_PLACED;
    p->kind = INTERPRETER_V8;
    p->end = PYTHON_END_WHOLE;
    python_begin(p, task, id, time_ns, RECORD_V8_CODE);
    v->layout = process->interpreters.v8;
    v->source_bytes = v->untold_count = 0;
    scratch->walk.interpreted = scratch->walk.places = 1;
}
