/* Resolves sample records; see samples.h.
 *
 * The middle of the pipeline, between the sources' records and the windows of aggregate. Here is the order of the
 * steps; each step has its own file:
 * - kernel_stack.h names the kernel frames;
 * - user_stack.h walks the user stack to its end;
 * - native_frames.h names its native frames;
 * - interpreter_join.h puts interpreter frames in place of the native frames that run them.
 *
 * What could not be walked or named is visible and counted. */
#include "resolve/sample/samples.h"

#include "resolve/interpreter/interpreter_join.h"
#include "resolve/jit/jit.h"
#include "resolve/kernel/kernel_stack.h"
#include "resolve/sample/native_frames.h"
#include "resolve/sample/sample_labels.h"
#include "resolve/sample/user_stack.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* All frames of a record, and truncation frames. */
#define FRAMES_MAX (STACK_MAX_KERNEL_FRAMES + STACK_MAX_USER_FRAMES + INTERPRETER_MAX_ENTRIES + 3)

struct sample_resolver {
    struct processes *processes;
    struct kernel_symbols *kernel;
    struct interpreters *interpreters;
    struct jits *jits;
    struct resource unknown; /* resource of an unknown process */
    char thread_name[17];
    struct user_stack user;
    struct native_frames native_frames;
    struct frame *frames;                       /* frame_storage + 1 */
    struct frame frame_storage[1 + FRAMES_MAX]; /* [0] is reserved for sample_put_leaf */
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
    r->kernel = kernel;
    r->interpreters = interpreters;
    r->jits = jits;
    r->user.processes = processes;
    r->user.unwind_cache = unwind_cache;
    r->user.interpreters = interpreters;
    r->native_frames.symbols = symbols;
    r->native_frames.jits = jits;
    r->frames = r->frame_storage + 1;
    *ret = r;
    return 0;
}

void sample_resolver_note_files(struct sample_resolver *r, struct line_objects *to)
{
    r->native_frames.line_objects = to;
}

void sample_resolver_free(struct sample_resolver *r)
{
    if (!r)
        return;
    native_frames_clear(&r->native_frames);
    free(r);
}

void sample_kernel_frame(struct sample_resolver *r, uint64_t address, struct frame *ret)
{
    kernel_symbols_find(r->kernel, address - 1, ret);
}

struct frame *sample_frames(struct sample_resolver *r)
{
    return r->frames;
}

/* Adds the user stack. False: it is incomplete, and counted. */
static bool add_user_stack(struct sample_resolver *r, const struct stack_record *record, const struct process *process,
                           struct losses *losses, struct sample *s)
{
    struct user_stack *u = &r->user;
    if (process && user_stack_is_gone(record, process) && kernel_stack_is_in_exec(r->frames, s->frame_count))
        return true; /* there is no user part */
    user_stack_walk(u, record, process);
    user_stack_settle(u, process);
    const char *cut = user_stack_count_end(u, losses);
    struct frame *frames = r->frames + s->frame_count;
    /* Behind the space for the interpreter frames, which the join puts among them. */
    struct frame *natives = frames + interpreter_entry_count(record);
    native_frames_name(&r->native_frames, process, u->addresses, u->count, natives);
    const struct native_stack native = {natives, u->count, cut, &u->spans};
    bool is_whole;
    s->frame_count += interpreter_join(r->interpreters, record, &native, frames, &is_whole);
    losses->count[LOSS_INTERPRETED] += !is_whole;
    return !cut;
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

/* The process of the record, which is counted if it is unknown. */
static const struct process *find_process(struct sample_resolver *r, const struct stack_record *record,
                                          struct losses *losses)
{
    if (r->jits)
        jits_at(r->jits, record->h.time_ns);
    processes_at(r->processes, record->h.time_ns);
    if (record->h.pid == 0) /* interrupts belong to no process */
        return NULL;
    const struct process *process = processes_find(r->processes, record->h.pid, record->cgroup_id);
    if (!process)
        losses->count[LOSS_NO_PROCESS]++;
    else if (record->h.kind == RECORD_CPU_SAMPLE && record->h.tid == record->h.pid) /* wait stacks may be old */
        processes_note_command(r->processes, process, record->comm, record->h.time_ns);
    return process;
}

static void count_unnamed(const struct sample_resolver *r, const struct sample *s, struct losses *losses)
{
    const uint64_t unanswered = r->native_frames.unanswered; /* of the frames without a name */
    size_t unnamed = 0;
    for (size_t i = 0; i < s->frame_count; i++)
        unnamed += r->frames[i].kind != FRAME_TRUNCATED && !r->frames[i].function[0];
    losses->count[LOSS_UNNAMED] += unnamed > unanswered;
    losses->count[LOSS_FILE_UNANSWERED] += unanswered > 0;
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
    native_frames_reset(&r->native_frames);
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

    const struct process *process = find_process(r, record, losses);
    bool kernel_is_whole;
    s.frame_count = kernel_stack_name(r->kernel, record, r->frames, &kernel_is_whole);
    const bool user_is_whole = add_user_stack(r, record, process, losses, &s);
    /* After the walk, which may have read the process again: the resource is as new as the frames. */
    s.resource = process ? processes_resource(r->processes, process) : unknown_resource(r, record->h.pid);

    losses->count[LOSS_TRUNCATED] += !kernel_is_whole && user_is_whole; /* count each sample once */
    count_unnamed(r, &s, losses);
    losses->stacks++;
    losses->incomplete_stacks += losses_of_stacks(losses) != lost_before;
    *ret = s;
    return process ? 0 : -ENOENT;
}

int sample_demangle(struct sample_resolver *r, const char *symbol, char out[DEMANGLED_MAX])
{
    return symbols_demangle(r->native_frames.symbols, symbol, out);
}

void sample_put_leaf(struct sample_resolver *r, struct sample *s, const char *text)
{
    assert(s->frames == r->frames || s->frames == r->frame_storage);
    r->frame_storage[0] = frame_of_text(FRAME_WAIT, text);
    s->frame_count += s->frames != r->frame_storage;
    s->frames = r->frame_storage;
}

const struct stack_record *sample_walk_copy(struct sample_resolver *r, const struct stack_record *record)
{
    if (record->stack_bytes == 0 || !is_valid_record(record))
        return record;
    processes_at(r->processes, record->h.time_ns);
    user_stack_walk(&r->user, record, processes_find(r->processes, record->h.pid, record->cgroup_id));
    return user_stack_replace_copy(&r->user, record);
}
