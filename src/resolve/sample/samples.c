/* Resolves sample records; see samples.h.
 *
 * The middle of the pipeline, between the sources' records and the windows of aggregate. A frame is resolved from its
 * address to the mapping of its process, the file offset, and the name; a return address one byte earlier, at the call.
 * What could not be walked or named is visible and counted. Code without a file: jit.h. */
#include "resolve/sample/samples.h"

#include "resolve/interpreter/interpreted.h"
#include "resolve/interpreter/interpreters.h"
#include "resolve/jit/jit.h"
#include "resolve/kernel/kernel_stack.h"
#include "resolve/lines/line_objects.h"
#include "resolve/sample/sample_labels.h"
#include "resolve/sample/stack_ends.h"
#include "resolve/unwind/unwind.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* All frames of a record, and truncation frames. */
#define FRAMES_MAX (STACK_MAX_KERNEL_FRAMES + STACK_MAX_USER_FRAMES + INTERPRETER_MAX_ENTRIES + 3)

/* Memory for the strings of one sample: strings of `symbols` are valid only until its next lookup. */
#define STRING_CHUNK_BYTES 16384
#define STRINGS_MAX_BYTES  (4 << 20)

struct string_chunk {
    struct string_chunk *next;
    size_t used, capacity;
    char data[];
};

struct sample_resolver {
    struct processes *processes;
    struct symbols *symbols;
    struct kernel_symbols *kernel;
    struct unwind_cache *unwind_cache;
    struct interpreters *interpreters;
    struct line_objects *line_objects; /* NULL: source lines are not wanted */
    struct jits *jits;
    struct string_chunk *strings; /* the chunk being filled is first */
    size_t string_bytes;
    struct resource unknown; /* resource of an unknown process */
    char thread_name[17];
    uint64_t unanswered; /* frames of the current sample whose file timed out */
    uint64_t user[STACK_MAX_USER_FRAMES];
    struct frame *frames;                       /* frame_storage + 1 */
    struct frame frame_storage[1 + FRAMES_MAX]; /* [0] is reserved for sample_put_leaf */
    struct interpreted interpreted;
    struct sample_labels labels;
};

int sample_resolver_new(struct processes *processes, struct symbols *symbols, struct kernel_symbols *kernel,
                        struct unwind_cache *unwind_cache, struct interpreters *interpreters, struct jits *jits,
                        struct sample_resolver **ret)
{
    struct sample_resolver *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->processes = processes;
    r->symbols = symbols;
    r->kernel = kernel;
    r->unwind_cache = unwind_cache;
    r->frames = r->frame_storage + 1;
    r->interpreters = interpreters;
    r->jits = jits;
    *ret = r;
    return 0;
}

void sample_resolver_note_files(struct sample_resolver *r, struct line_objects *to)
{
    r->line_objects = to;
}

/* Frees all chunks but one of the usual size, which is kept, empty, for the next sample. */
static void strings_reset(struct sample_resolver *r)
{
    struct string_chunk *kept = NULL;
    for (struct string_chunk *c = r->strings, *next; c; c = next) {
        next = c->next;
        if (!kept && c->capacity == STRING_CHUNK_BYTES)
            kept = c;
        else
            free(c);
    }
    if (kept)
        *kept = (struct string_chunk){.capacity = kept->capacity};
    r->strings = kept;
    r->string_bytes = kept ? kept->capacity : 0;
}

void sample_resolver_free(struct sample_resolver *r)
{
    if (!r)
        return;
    strings_reset(r);
    free(r->strings);
    free(r);
}

/* Returns "" if there is no memory: the frame has no name, which the caller counts. */
static const char *copy_string(struct sample_resolver *r, const char *text)
{
    const size_t size = strlen(text) + 1;
    if (size == 1)
        return "";
    struct string_chunk *c = r->strings;
    if (!c || c->capacity - c->used < size) {
        size_t capacity = size > STRING_CHUNK_BYTES ? size : STRING_CHUNK_BYTES;
        if (r->string_bytes + capacity > STRINGS_MAX_BYTES)
            return "";
        c = malloc(sizeof(*c) + capacity);
        if (!c)
            return "";
        *c = (struct string_chunk){.next = r->strings, .capacity = capacity};
        r->strings = c;
        r->string_bytes += capacity;
    }
    char *copy = c->data + c->used;
    memcpy(copy, text, size);
    c->used += size;
    return copy;
}

/* Resolves JIT code. A function of a runtime gets no address, so that it is the same frame in every process, wherever
 * its code is. */
static void resolve_jit(struct sample_resolver *r, const struct process *process, struct frame *frame)
{
    struct jit_name name;
    if (!r->jits || jits_find(r->jits, process, frame->address, &name) < 0)
        return;
    frame->kind = name.kind;
    frame->function = copy_string(r, name.function);
    frame->file = copy_string(r, name.file);
    frame->line = name.line;
    frame->is_first_line = true;
    if (name.kind == FRAME_NATIVE)
        return;
    frame->mapping = "";
    frame->address = 0;
}

static void resolve_native(struct sample_resolver *r, const struct process *process, uint64_t address,
                           struct frame *ret)
{
    *ret = (struct frame){
        .kind = FRAME_NATIVE, .function = "", .system_name = "", .file = "", .mapping = "", .build_id = ""};
    ret->address = address & ~FRAME_EXACT;
    if (!(address & FRAME_EXACT) && ret->address)
        ret->address--;
    const struct process_mapping *m = process ? process_mapping_find(process, ret->address) : NULL;
    if (!m)
        return;
    if (!m->object || m->object->is_anonymous) { /* the latter: a memfd, which .NET maps twice for JIT code */
        ret->mapping = m->object ? m->path : "[anon]";
        resolve_jit(r, process, ret);
        return;
    }
    struct symbol symbol = {.function = "", .system_name = ""};
    r->unanswered +=
        symbols_find(r->symbols, m->object, ret->address - m->start + m->file_offset, &symbol) == -ETIMEDOUT;
    ret->function = copy_string(r, symbol.function);
    ret->system_name = copy_string(r, symbol.system_name);
    ret->mapping = m->path;
    ret->build_id = m->object->build_id;
    ret->address = symbol.address;
    ret->object = m->object;
    if (r->line_objects)
        line_objects_note(r->line_objects, m->object, m->path);
}

static size_t resolve_user(struct sample_resolver *r, const struct process *process, const uint64_t *addresses,
                           size_t count, struct frame *ret, size_t max)
{
    size_t n = count < max ? count : max;
    for (size_t i = 0; i < n; i++)
        resolve_native(r, process, addresses[i], &ret[i]);
    return n;
}

static size_t resolve_kernel(struct sample_resolver *r, const uint64_t *addresses, size_t count,
                             struct frame *ret_frames, size_t max)
{
    size_t n = count < max ? count : max;
    for (size_t i = 0; i < n; i++) {
        kernel_symbols_find(r->kernel, i == 0 ? addresses[i] : addresses[i] - 1, &ret_frames[i]);
        ret_frames[i].address = addresses[i];
    }
    return n;
}

void sample_kernel_frame(struct sample_resolver *r, uint64_t address, struct frame *ret)
{
    kernel_symbols_find(r->kernel, address - 1, ret);
}

static void add_truncation_frame(struct sample *s, struct frame *frames, const char *reason)
{
    frames[s->frame_count++] = (struct frame){
        .kind = FRAME_TRUNCATED, .function = reason, .system_name = "", .file = "", .mapping = "", .build_id = ""};
}

struct frame *sample_frames(struct sample_resolver *r)
{
    return r->frames;
}

/* Before a retpoline returns, it replaces its own return address with the jump target, which the unwinder takes for a
 * caller. The target is the start of a function; a return address never is. Returns the number of remaining frames. */
static size_t drop_retpoline_target(struct sample_resolver *r, size_t count)
{
    struct frame at;
    if (count < 2 || !kernel_stack_is_retpoline(&r->frames[0]))
        return count;
    kernel_symbols_find(r->kernel, r->frames[1].address, &at);
    if (strcmp(at.function, r->frames[1].function) == 0)
        return count;
    memmove(&r->frames[1], &r->frames[2], (count - 2) * sizeof(*r->frames));
    return count - 1;
}

/* Resolves the kernel stack. False: it is incomplete. */
static bool add_kernel_frames(struct sample_resolver *r, const struct stack_record *record, struct sample *s)
{
    const uint64_t *addresses = (const uint64_t *)record->data;
    size_t n = resolve_kernel(r, addresses, record->kernel_frames, r->frames, STACK_MAX_KERNEL_FRAMES);
    const unsigned kind = record->h.kind;
    if (kind == RECORD_OFF_CPU_STACK || kind == RECORD_OFF_CPU_WAKER || kind == RECORD_WAIT_STACK) {
        size_t probe = kernel_stack_probe_frames(r->frames, n);
        n -= probe;
        memmove(r->frames, r->frames + probe, n * sizeof(*r->frames));
    }
    s->frame_count = n = drop_retpoline_target(r, n);
    const char *cut =
        record->flags & STACK_RECORD_KERNEL_TRUNCATED ? "kernel stack too deep" : kernel_stack_cut(r->frames, n);
    if (cut)
        add_truncation_frame(s, r->frames, cut);
    return !cut;
}

/* Whether the address is outside all known mappings. */
static bool is_unmapped(const struct process *process, uint64_t user)
{
    const uint64_t address = user & ~FRAME_EXACT;
    return !process_mapping_find(process, user & FRAME_EXACT || !address ? address : address - 1);
}

/* Reads the mappings again if an address is outside all of them: the process may have mapped it without a record. */
static void refresh_mappings(struct sample_resolver *r, const struct process *process, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_unmapped(process, r->user[i])) {
            processes_read_mappings(r->processes, process);
            return;
        }
}

/* Returns the number of frames of a finished walk. If it ended outside all mappings, its last address is stale stack
 * content, which would make equal stacks differ: it is dropped, unless it is the leaf. `process` may be NULL. */
static size_t settle_user_stack(struct sample_resolver *r, const struct process *process, size_t count, unsigned end)
{
    if (!process)
        return count;
    refresh_mappings(r, process, count);
    return count - (count > 1 && end == UNWIND_END_NO_MAPPING && is_unmapped(process, r->user[count - 1]));
}

/* During exec the registers still belong to the old program, but its stack has been freed with the rest of its
 * memory, shortly before its mappings are removed. There is no user part, so the stack is complete without one. */
static bool is_in_exec(const struct stack_record *record, const struct process *process, const struct sample *s)
{
    static const char *const functions[] = {"begin_new_exec", "load_elf_binary", "bprm_execve", "load_script",
                                            "load_misc_binary"};
    const uint64_t ip = record->user_frames ? record->data[record->kernel_frames] & ~FRAME_EXACT : record->stop_ip;
    const bool stack_is_gone = record->user_end != UNWIND_END_ENTRY && record->stack_bytes == 0;
    if (record->kernel_frames == 0 || (process_mapping_find(process, ip) && !stack_is_gone))
        return false;
    for (size_t i = 0; i < s->frame_count; i++)
        for (size_t n = 0; n < array_size(functions); n++)
            if (s->frames[i].kind == FRAME_KERNEL &&
                strncmp(s->frames[i].function, functions[n], strlen(functions[n])) == 0)
                return true;
    return false;
}

static unsigned finish_walk(struct sample_resolver *r, const struct stack_record *record, const struct process *process,
                            size_t count, size_t *ret_more)
{
    interpreted_read(&r->interpreted, record);
    return (unsigned)unwind_finish_sample(record, process, r->unwind_cache,
                                          interpreters_walk_code(r->interpreters, process), &r->interpreted,
                                          r->user + count, STACK_MAX_USER_FRAMES - count, ret_more);
}

/* Fills r->user with the user stack; returns the number of frames. */
static size_t walk_user(struct sample_resolver *r, const struct stack_record *record, const struct process *process,
                        unsigned *ret_end)
{
    size_t count = record->user_frames;
    unsigned end = record->user_end;
    memcpy(r->user, record->data + record->kernel_frames, count * sizeof(*r->user));
    interpreted_read(&r->interpreted, record);
    if (record->stack_bytes && process) {
        size_t more = 0;
        end = finish_walk(r, record, process, count, &more);
        /* The code was mapped without a record, or before its record arrived: walk again by the current mappings. */
        if ((end == UNWIND_END_NO_MAPPING || end == UNWIND_END_NO_CFI) &&
            processes_read_mappings(r->processes, process))
            end = finish_walk(r, record, process, count, &more);
        count += more;
        if (end == UNWIND_END_NO_MAPPING && record->flags & STACK_RECORD_STOP_BY_FP && more == 0 && count > 0) {
            count--;
            end = UNWIND_END_NO_CFI;
        }
    }
    *ret_end = end;
    return count;
}

/* Resolves an interpreter frame. False: it has no name. */
static bool resolve_interpreted(struct sample_resolver *r, uint32_t pid, const struct interpreter_entry *entry,
                                struct frame *ret)
{
    const struct interpreter *interpreter = interpreters_get(r->interpreters, r->interpreted.kind);
    struct interpreted_name name;
    *ret = (struct frame){.kind = interpreter ? interpreter->frame_kind : FRAME_INTERPRETED,
                          .function = "",
                          .system_name = "",
                          .file = "",
                          .mapping = interpreter ? interpreter->mapping : "[interpreter]",
                          .build_id = ""};
    if (interpreters_find(r->interpreters, r->interpreted.kind, pid, entry, &name) < 0) {
        ret->address = entry->code;
        return false;
    }
    ret->mapping = "";
    ret->function = name.function;
    ret->file = name.file;
    ret->line = name.line;
    ret->is_first_line = name.is_first_line;
    return true;
}

/* Adds the frames of interpreter entries [first, first + count), without marks. False: some have no name. */
static bool add_interpreted(struct sample_resolver *r, uint32_t pid, size_t first, size_t count, struct sample *s)
{
    bool all_named = true;
    for (size_t i = first; i < first + count; i++)
        if (!(r->interpreted.entries[i].code & INTERPRETER_ENTRY_MARK))
            all_named &= resolve_interpreted(r, pid, &r->interpreted.entries[i], &r->frames[s->frame_count++]);
    return all_named;
}

static bool is_entering(const struct interpreter *interpreter, const struct frame *frames, size_t first_evaluator)
{
    return first_evaluator == 0 ||
           (first_evaluator == 1 && interpreter->is_without_frame && interpreter->is_without_frame(frames[0].function));
}

static void fit_counted(const struct sample_resolver *r, struct interpreted *x, const struct frame *natives,
                        size_t count, bool is_whole)
{
    const struct interpreter *interpreter = interpreters_get(r->interpreters, x->kind);
    struct interpreted_evaluators found = {.is_whole = is_whole};
    for (size_t i = 0; interpreter && i < count; i++)
        if (interpreter->is_evaluator(natives[i].function) && found.count++ == 0)
            found.leaf_is_entering = is_entering(interpreter, natives, i);
    interpreted_fit(x, &found);
}

/* Whether the native function is a helper (is_part) of the sample's interpreter. */
static bool is_part(const struct sample_resolver *r, const char *function)
{
    const struct interpreter *interpreter = interpreters_get(r->interpreters, r->interpreted.kind);
    return interpreter && interpreter->is_part && interpreter->is_part(function);
}

/* The state of joining the native frames of a user stack with the record's interpreter frames. */
struct frame_join {
    struct sample_resolver *resolver;
    const struct stack_record *record;
    struct sample *sample;
    bool is_whole; /* so far, the interpreter frames are complete, placed and named */
    bool is_ended; /* frames of an incompletely walked run replace the last evaluator: no native frame follows */
};

/* Takes the entries that replace native frame `frame`; see interpreted.h. `is_own`: see join_native_frame. */
static size_t take_entries(struct interpreted *x, size_t frame, bool is_own, size_t *ret_first, bool *ret_stays)
{
    *ret_stays = false;
    if (x->is_placed)
        return interpreted_take_placed(x, frame, ret_first, ret_stays);
    if (!x->is_counted)
        return interpreted_take(x, frame, ret_first);
    return is_own ? interpreted_take_counted(x, ret_first) : 0;
}

/* Whether the stack is complete although this evaluator has no interpreter frames. It is not if the BPF side did not
 * know the process yet, cannot read its interpreter, has walked another interpreter, or took another thread's idle
 * state for this one's. Exception: a leaf evaluator may be about to create its first frame. */
static bool may_lack_entries(const struct frame_join *j, size_t frame, bool is_own)
{
    const struct interpreted *x = &j->resolver->interpreted;
    const bool was_walked = j->record->flags & STACK_RECORD_INTERPRETED;
    return was_walked && is_own && ((x->count > 0 && !x->is_several && !x->is_placed) || frame == 0);
}

/* Whether the next run was walked incompletely: its frames replace this evaluator, and the native stack ends there. */
static bool is_cut_run_next(const struct interpreted *x)
{
    return stack_end_interpreted(x->end) && x->count && (interpreted_left(x) > 0) != x->is_counted &&
           !interpreted_places_left(x);
}

/* Adds native frame `frame`, or the interpreter frames that replace it. */
static void join_native_frame(struct frame_join *j, const struct frame *native, size_t frame)
{
    struct sample_resolver *r = j->resolver;
    struct interpreted *x = &r->interpreted;
    const int evaluates = interpreters_evaluator(r->interpreters, native->function);
    const bool is_own = evaluates == (int)x->kind; /* of the interpreter whose frames the record has */
    size_t first;
    bool stays;
    const size_t n = take_entries(x, frame, is_own, &first, &stays);
    if (n) {
        if (stays && !is_part(r, native->function))
            r->frames[j->sample->frame_count++] = *native;
        j->is_whole &= add_interpreted(r, j->record->h.pid, first, n, j->sample);
        return;
    }
    if ((interpreted_is_next(x, frame + 1) || interpreted_is_joined(x)) &&
        is_part(r, native->function)) /* the frame of its function is present */
        return;
    if (evaluates >= 0)
        j->is_whole &= may_lack_entries(j, frame, is_own);
    j->is_ended = is_own && is_cut_run_next(x);
    if (!j->is_ended)
        r->frames[j->sample->frame_count++] = *native;
}

/* Adds the user stack: native frames, with interpreter frames in place of the native ones that run them. Interpreter
 * frames without a native frame are added where the native stack ends. */
static void add_user_frames(struct sample_resolver *r, const struct stack_record *record, const struct process *process,
                            size_t count, const char *reason, struct losses *losses, struct sample *s)
{
    struct interpreted *x = &r->interpreted;
    const char *cut = stack_end_interpreted(x->end);
    struct frame_join join = {.resolver = r, .record = record, .sample = s, .is_whole = !cut};
    interpreted_settle(x);
    /* Leaves space for the interpreter frames that are added before a native one. */
    struct frame *natives = &r->frames[s->frame_count + x->count];
    resolve_user(r, process, r->user, count, natives, count);
    if (x->is_counted)
        fit_counted(r, x, natives, count, !reason);

    for (size_t i = 0; i < count && !join.is_ended; i++)
        join_native_frame(&join, &natives[i], i);
    if (reason && !join.is_ended)
        add_truncation_frame(s, r->frames, reason);

    join.is_whole &= join.is_ended || interpreted_left(x) == 0;
    join.is_whole &= add_interpreted(r, record->h.pid, x->taken, interpreted_left(x), s);
    if (cut)
        add_truncation_frame(s, r->frames, cut);
    losses->count[LOSS_INTERPRETED] += !join.is_whole;
}

/* Adds the user stack. False: it is incomplete, and counted. */
static bool add_user_stack(struct sample_resolver *r, const struct stack_record *record, const struct process *process,
                           struct losses *losses, struct sample *s)
{
    unsigned end;
    size_t count = walk_user(r, record, process, &end);
    count = settle_user_stack(r, process, count, end);
    const char *reason = stack_end_count(end, losses);
    add_user_frames(r, record, process, count, reason, losses, s);
    return !reason;
}

static bool is_valid_record(const struct stack_record *record)
{
    if (record->h.size_bytes < sizeof(*record) || record->kernel_frames > STACK_MAX_KERNEL_FRAMES ||
        record->user_frames > STACK_MAX_USER_FRAMES || record->stack_bytes > STACK_COPY_BYTES)
        return false;
    const size_t frames = (size_t)record->kernel_frames + record->user_frames;
    return record->h.size_bytes >=
           sizeof(*record) + frames * sizeof(uint64_t) + record->stack_bytes + (size_t)stack_record_tail_bytes(record);
}

/* The link IDs are at the very end of the record. */
static struct trace_link read_link(const struct stack_record *record)
{
    struct link_ids ids = {0};
    if (record->flags & STACK_RECORD_LINKED)
        memcpy(&ids, (const char *)record + record->h.size_bytes - sizeof(ids), sizeof(ids));
    return (struct trace_link){ids.trace_id_high, ids.trace_id_low, ids.span_id};
}

static const struct resource *unknown_resource(struct sample_resolver *r, uint32_t pid)
{
    r->unknown = resource_unknown;
    r->unknown.pid = pid;
    r->unknown.command = r->unknown.service_name = r->thread_name;
    return &r->unknown;
}

int sample_resolve(struct sample_resolver *r, const struct stack_record *record, struct losses *losses,
                   struct sample *ret)
{
    struct sample s = {
        .type = &sample_type_cpu,
        .time_ns = record->h.time_ns,
        .tid = record->h.tid,
        .thread_name = r->thread_name,
        .frames = r->frames,
    };
    strings_reset(r);
    r->unanswered = 0;
    r->thread_name[0] = '\0';
    if (!is_valid_record(record)) {
        losses->count[LOSS_DECODE]++;
        s.resource = unknown_resource(r, record->h.pid);
        *ret = s;
        return -EBADMSG;
    }
    const uint64_t lost_before = losses_of_stacks(losses);
    s.value = record->h.kind == RECORD_CPU_SAMPLE ? record->sample.value : 0;
    s.cpu = record->cpu;
    memcpy(r->thread_name, record->comm, sizeof(record->comm));
    s.link = read_link(record);
    sample_labels_read(record, &r->labels);
    s.labels = r->labels.at;
    s.label_count = r->labels.count;
    processes_at(r->processes, record->h.time_ns);
    if (r->jits)
        jits_at(r->jits, record->h.time_ns);
    const bool is_interrupt = record->h.pid == 0; /* interrupts belong to no process */
    const struct process *process =
        is_interrupt ? NULL : processes_find(r->processes, record->h.pid, record->cgroup_id);
    if (!process && !is_interrupt)
        losses->count[LOSS_NO_PROCESS]++;
    if (process && record->h.kind == RECORD_CPU_SAMPLE && record->h.tid == record->h.pid) /* wait stacks may be old */
        processes_note_command(r->processes, process, record->comm, record->h.time_ns);

    const bool kernel_is_whole = add_kernel_frames(r, record, &s);
    const bool user_is_whole =
        (process && is_in_exec(record, process, &s)) || add_user_stack(r, record, process, losses, &s);
    losses->count[LOSS_TRUNCATED] += !kernel_is_whole && user_is_whole; /* count each sample once */
    /* After the walk, which may have read the process again: the resource is as new as the frames. */
    s.resource = process ? processes_resource(r->processes, process) : unknown_resource(r, record->h.pid);
    size_t unnamed = 0;
    for (size_t i = 0; i < s.frame_count; i++)
        unnamed += r->frames[i].kind != FRAME_TRUNCATED && !r->frames[i].function[0];
    losses->count[LOSS_UNNAMED] += unnamed > r->unanswered; /* each frame counted in unanswered has no name */
    losses->count[LOSS_FILE_UNANSWERED] += r->unanswered > 0;
    losses->stacks++;
    losses->incomplete_stacks += losses_of_stacks(losses) != lost_before;
    *ret = s;
    return process ? 0 : -ENOENT;
}

void sample_put_leaf(struct sample_resolver *r, struct sample *s, const char *text)
{
    assert(s->frames == r->frames || s->frames == r->frame_storage);
    r->frame_storage[0] = (struct frame){
        .kind = FRAME_WAIT, .function = text, .system_name = "", .file = "", .mapping = "", .build_id = ""};
    s->frame_count += s->frames != r->frame_storage;
    s->frames = r->frame_storage;
}

const struct process *sample_process(struct sample_resolver *r, const struct stack_record *record)
{
    processes_at(r->processes, record->h.time_ns);
    return processes_find(r->processes, record->h.pid, record->cgroup_id);
}

size_t sample_user_stack(struct sample_resolver *r, const struct stack_record *record, const struct process *process,
                         uint64_t *ret, size_t max, unsigned *ret_end)
{
    *ret_end = UNWIND_END_NO_USER;
    if (!is_valid_record(record))
        return 0;
    size_t count = walk_user(r, record, process, ret_end);
    if (count > max) {
        count = max;
        *ret_end = UNWIND_END_TOO_DEEP;
    }
    memcpy(ret, r->user, count * sizeof(*ret));
    return count;
}
