/* BPF side of V8's frames (v8.h): recognizes native frames of JavaScript, and their functions.
 *
 * The function lies below the frame pointer, and a context above the function; V8's own frames (stubs, exits to C++,
 * WebAssembly, regular expressions) have a small integer in place of the context. Objects are recognized by their
 * types: context, SharedFunctionInfo, ScopeInfo. Garbage collection moves them, so another function may come to lie at
 * the same address; it has another check, computed from the constant fields of a function (start and end, script ID,
 * hash of its name).
 *
 * Only for the leaf it is uncertain whether the frame pointer is its own: before its frame is set up and after it is
 * left, it is the caller's. The function found is then still on the stack, just below a native frame
 * (INTERPRETER_ENTRY_CALLER). */
#pragma once

#include "probes/interpreter/v8_text.bpf.h"

#define V8_MAX_LOCALS 4096

static __always_inline int v8_is_small(__u64 word)
{
    return (__u32)word == 0;
}

/* ---- function ---- */

/* Reads start, end and name of a function from its ScopeInfo, whose type was checked. 0; -1: inconsistent. */
__noinline int v8_scope(__u64 scope)
{
    struct v8_scratch *v = v8_scratch_get();
    __u32 is_first, flags, at = 0;
    __u64 locals;

    if (!v || interpreter_read(v->words, 40, scope - V8_TAG + v->layout.scope_flags))
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
    if (interpreter_read(v->words, 40, scope - V8_TAG + v->layout.scope_variables + locals * 8))
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

/* Hash and length of a name. A small integer means no name. */
static __always_inline int v8_name_hash(__u64 name, __u64 *ret)
{
    *ret = 0;
    if ((name & V8_TAG_MASK) != V8_TAG)
        return 0;
    return interpreter_read(ret, 8, name - V8_TAG + 8);
}

/* Computes the check of a frame's function, which distinguishes it from others at its SharedFunctionInfo's address; 0:
 * unreadable, 1: not a function of a script. */
__noinline __u32 v8_check(__u64 shared)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct v8_scratch *v = v8_scratch_get();
    __u64 scope, script, hash, word;
    int type;

    if (!p || !v || v8_type(shared) != v->layout.shared_type ||
        interpreter_read(&scope, 8, shared - V8_TAG + v->layout.shared_scope) ||
        interpreter_read(&script, 8, shared - V8_TAG + v->layout.shared_script))
        return 0;
    type = v8_type(scope);
    if (type >= 0 && !(type & v->layout.not_string))
        return 1; /* a function of V8's own: it only has a name */
    if (type != v->layout.scope_type || v8_scope(scope))
        return 0;
    v->script = script;
    if ((script & V8_TAG_MASK) != V8_TAG || interpreter_read(&word, 8, script - V8_TAG + v->layout.script_id))
        return 0;
    hash = hash_mix(p->seed, word);
    hash = hash_mix(hash, v->start << 32 | v->end);
    if (v8_name_hash(v->name, &word))
        return 0;
    hash = hash_mix(hash, word);
    return hash >> 32 | 2;
}

/* ---- metadata ---- */

/* Copies the current string to the record. */
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

/* A function without a name may have one that V8 inferred from its assignment to a variable. */
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

/* Emits the record of the function that v8_check examined last. 0: the ring took it. */
__noinline int v8_emit(__u64 shared, __u32 check)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
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
        if (interpreter_read(&word, 8, v->script - V8_TAG + v->layout.script_source))
            return -1;
        line = v8_line(word, v->start);
        if (line < 0)
            return -1;
        code->line = line;
        if (interpreter_read(&word, 8, v->script - V8_TAG + v->layout.script_name))
            return -1;
        if (v8_string(word, V8_FILE_BYTES / 2, 0) == 0)
            code->file = v8_put_text(v, code->file_data, V8_FILE_BYTES);
    }
    code->name = v8_put_name(v, code);
    code->h.size_bytes = sizeof(*code);
    return bpf_ringbuf_output(&records, code, sizeof(*code), BPF_RB_NO_WAKEUP) ? -1 : 0;
}

/* Queues an entry's function for emission, if its record was not emitted or its slot was overwritten. */
static __always_inline void v8_queue_emission(struct v8_scratch *v, __u32 entry, __u64 shared, __u32 check)
{
    __u64 hash = emitted_code_hash(bpf_get_current_pid_tgid() >> 32, shared, check), *emitted;
    __u32 index = emitted_code_index(hash);

    emitted = bpf_map_lookup_elem(&emitted_codes, &index);
    if (!emitted || *emitted == hash || v->queued_count >= EMITTED_CODES_PER_SAMPLE)
        return;
    v->queued[v->queued_count & (EMITTED_CODES_PER_SAMPLE - 1)] = entry;
    v->queued_count++;
}

/* Emits the record of an entry's function. 0; -1: this sample emits no more. */
__noinline int v8_emit_entry(__u32 number)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct interpreter_entry *entry;
    __u64 hash, *emitted, at = number;
    __u32 index;

    UNWIND_SAME_REGISTER(at);
    if (!p || at >= INTERPRETER_MAX_ENTRIES || bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > ring_bytes / 4 * 3)
        return -1;
    entry = &p->entry[at];
    hash = emitted_code_hash(bpf_get_current_pid_tgid() >> 32, entry->code, entry->check);
    index = emitted_code_index(hash);
    emitted = bpf_map_lookup_elem(&emitted_codes, &index);
    if (emitted && *emitted != hash && v8_check(entry->code) == entry->check && v8_emit(entry->code, entry->check) == 0)
        *emitted = hash;
    return 0;
}

/* Emits the queued records. After the walk, which already uses the maximum depth of calls. */
__noinline int v8_emit_queued(void)
{
    struct v8_scratch *v = v8_scratch_get();

    if (!v)
        return 0;
    for (__u32 i = 0; i < EMITTED_CODES_PER_SAMPLE && i < v->queued_count; i++)
        if (v8_emit_entry(v->queued[i]))
            break;
    return 0;
}

/* ---- frames ---- */

#if defined(__TARGET_ARCH_x86)
#define V8_BYTES_BEHIND 24          /* bytes between leaving the frame and the return */
#define V8_BYTES_AHEAD  32          /* bytes before the frame is set up */
#define V8_ENTER_1      0xe5894855U /* push rbp; mov rbp, rsp */
#define V8_ENTER_2      0xec8b4855U /* the same in the other encoding */
#define V8_LEAVE_1      0x5de58b48U /* mov rsp, rbp; pop rbp */
#define V8_LEAVE_2      0x5dec8948U
#define V8_LEAVE_JUMP   0x006d8b48U /* mov rbp, [rbp]: a tail call */

/* Whether the frame pointer may belong to another function than the code at `ip`: the frame is not yet set up or
 * already left.
 */
__noinline int v8_is_outside_frame(__u64 ip)
{
    struct v8_scratch *v = v8_scratch_get();
    const __u8 *bytes;
    int found = 0;

    if (!v || bpf_probe_read_user(v->words, 64, (const void *)(ip - V8_BYTES_BEHIND)))
        return 1;
    bytes = (const __u8 *)v->words;
    for (int i = 0; i < V8_BYTES_BEHIND + V8_BYTES_AHEAD; i++) {
        __u32 word = *(const __u32 *)&bytes[i];

        if (i > V8_BYTES_BEHIND - 4)
            found |= word == V8_ENTER_1 || word == V8_ENTER_2;
        else
            found |= word == V8_LEAVE_1 || word == V8_LEAVE_2 || word == V8_LEAVE_JUMP;
    }
    return found;
}
#else
__noinline int v8_is_outside_frame(__u64 ip)
{
    return 1;
}
#endif

/* Adds an entry if the frame recorded last runs a function of a script. */
__noinline int v8_place(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct v8_scratch *v = v8_scratch_get();
    __u64 function, shared, at;
    __u32 check, index;
    int type;

    if (!scratch || !p || !v)
        return 0;
    at = scratch->walk.r.fp + v->layout.frame_function;
    /* For the leaf, words that are not pushed yet belong to an earlier function. */
    if ((scratch->walk.interrupted && scratch->walk.r.sp > at) || interpreter_read(v->words, 16, at))
        return 0;
    function = v->words[0];
    type = v8_type(v->words[1]);
    if (type < v->layout.context_first || type > v->layout.context_last || (function & V8_TAG_MASK) != V8_TAG)
        return 0;
    if (interpreter_read(&shared, 8, function - V8_TAG + v->layout.function_shared))
        return 0;
    check = v8_check(shared);
    if (check == 1)
        return 0;
    index = scratch->walk.frames;
    if (scratch->walk.interrupted &&
        (scratch->walk.object != UNWIND_MAPPING_NO_CODE || v8_is_outside_frame(scratch->walk.r.ip)))
        index |= INTERPRETER_ENTRY_CALLER;
    if (check)
        v8_queue_emission(v, p->entries, shared, check);
    interpreter_put(p, shared, index, check);
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

/* Prepares the native walk to examine frames for JavaScript functions. */
static __always_inline void v8_begin(struct unwind_scratch *scratch, const struct unwind_process *process,
                                     struct task_struct *task, __u64 id, __u64 time_ns)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct v8_scratch *v = v8_scratch_get();

    if (!p || !v)
        return;
    p->entries = p->states = 0;
    p->flags = INTERPRETER_TAIL_PLACED;
    p->kind = INTERPRETER_V8;
    p->end = INTERPRETER_END_WHOLE;
    interpreter_begin_codes(p, task, id, time_ns, RECORD_V8_CODE);
    v->layout = process->interpreters.v8;
    v->source_bytes = v->queued_count = 0;
    scratch->walk.interpreted = scratch->walk.places = 1;
}
