/* From a wire record to a sample with names; see samples.h.
 *
 * Where it stands: the middle of the pipeline, between the records of the sources and the windows of
 * aggregate. A frame's way is address -> mapping of its process -> place in a file -> name; a return address
 * is looked up one byte earlier, where the call is. What could not be walked or named is said in the sample
 * itself and counted. Code without a file (JIT) has no name here. */
#include "resolve/samples.h"

#include "resolve/unwind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All frames of a record, two marks that something is missing. */
#define FRAMES_MAX (CPU_MAX_KERNEL_FRAMES + CPU_MAX_USER_FRAMES + 2)

/* Copies of one sample's function names: those of `symbols` hold only until it is asked again. */
#define TEXT_CHUNK_BYTES 16384
#define TEXT_MAX_BYTES   (4 << 20)

struct text_chunk {
    struct text_chunk *next;
    size_t used, capacity;
    char data[];
};

struct sample_resolver {
    struct processes *processes;
    struct symbols *symbols;
    struct kernel_symbols *kernel;
    struct unwind_cache *unwind_cache;
    struct text_chunk *texts; /* the one being filled first */
    size_t text_bytes;
    struct resource unknown; /* of a process that nothing is known of */
    char thread_name[17];
    uint64_t unanswered; /* frames of files that do not answer at present */
    uint64_t user[CPU_MAX_USER_FRAMES];
    struct frame frames[FRAMES_MAX];
};

int sample_resolver_new(struct processes *processes, struct symbols *symbols, struct kernel_symbols *kernel,
                        struct unwind_cache *unwind_cache, struct sample_resolver **ret)
{
    struct sample_resolver *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->processes = processes;
    r->symbols = symbols;
    r->kernel = kernel;
    r->unwind_cache = unwind_cache;
    *ret = r;
    return 0;
}

/* Leaves one chunk of the usual size, empty, for the next sample. */
static void texts_reset(struct sample_resolver *r)
{
    struct text_chunk *kept = NULL;
    for (struct text_chunk *c = r->texts, *next; c; c = next) {
        next = c->next;
        if (!kept && c->capacity == TEXT_CHUNK_BYTES)
            kept = c;
        else
            free(c);
    }
    r->texts = kept;
    r->text_bytes = 0;
    if (kept) {
        kept->next = NULL;
        kept->used = 0;
        r->text_bytes = kept->capacity;
    }
}

void sample_resolver_free(struct sample_resolver *r)
{
    if (!r)
        return;
    texts_reset(r);
    free(r->texts);
    free(r);
}

/* "" when there is no room: a frame without its name, which the caller counts. */
static const char *texts_copy(struct sample_resolver *r, const char *text)
{
    const size_t size = strlen(text) + 1;
    if (size == 1)
        return "";
    struct text_chunk *c = r->texts;
    if (!c || c->capacity - c->used < size) {
        size_t capacity = size > TEXT_CHUNK_BYTES ? size : TEXT_CHUNK_BYTES;
        if (r->text_bytes + capacity > TEXT_MAX_BYTES)
            return "";
        c = malloc(sizeof(*c) + capacity);
        if (!c)
            return "";
        *c = (struct text_chunk){.next = r->texts, .capacity = capacity};
        r->texts = c;
        r->text_bytes += capacity;
    }
    char *copy = c->data + c->used;
    memcpy(copy, text, size);
    c->used += size;
    return copy;
}

static void resolve_native(struct sample_resolver *r, const struct process *process, uint64_t address,
                           struct frame *ret)
{
    *ret = (struct frame){
        .kind = FRAME_NATIVE, .function = "", .system_name = "", .file = "", .mapping = "", .build_id = ""};
    ret->address = address & ~CPU_FRAME_EXACT;
    if (!(address & CPU_FRAME_EXACT) && ret->address)
        ret->address--;
    const struct process_mapping *m = process ? process_mapping_find(process, ret->address) : NULL;
    if (!m)
        return;
    if (!m->object) {
        ret->mapping = "[anon]"; /* just-in-time compiled code; its names come from maps that runtimes write,
                                    by a later issue */
        return;
    }
    struct symbol symbol = {.function = "", .system_name = ""};
    r->unanswered +=
        symbols_find(r->symbols, m->object, ret->address - m->start + m->file_offset, &symbol) == -ETIMEDOUT;
    ret->function = texts_copy(r, symbol.function);
    ret->system_name = texts_copy(r, symbol.system_name);
    ret->mapping = m->path;
    ret->build_id = m->object->build_id;
    ret->address = symbol.address;
}

static size_t resolve_user(struct sample_resolver *r, const struct process *process,
                           const uint64_t *addresses, size_t count, struct frame *ret, size_t max)
{
    size_t n = count < max ? count : max;
    for (size_t i = 0; i < n; i++)
        resolve_native(r, process, addresses[i], &ret[i]);
    return n;
}

size_t sample_resolve_kernel(struct sample_resolver *r, const uint64_t *addresses, size_t count,
                             struct frame *ret_frames, size_t max)
{
    size_t n = count < max ? count : max;
    for (size_t i = 0; i < n; i++) {
        kernel_symbols_find(r->kernel, i == 0 ? addresses[i] : addresses[i] - 1, &ret_frames[i]);
        ret_frames[i].address = addresses[i];
    }
    return n;
}

static void add_truncated(struct sample *s, struct frame *frames, const char *reason)
{
    frames[s->frame_count++] = (struct frame){.kind = FRAME_TRUNCATED,
                                              .function = reason,
                                              .system_name = "",
                                              .file = "",
                                              .mapping = "",
                                              .build_id = ""};
}

static void add_kernel(struct sample_resolver *r, const struct cpu_sample *record, struct losses *losses,
                       struct sample *s)
{
    const uint64_t *addresses = (const uint64_t *)record->data;
    size_t n = sample_resolve_kernel(r, addresses, record->kernel_frames, r->frames, CPU_MAX_KERNEL_FRAMES);
    s->frame_count = n;
    if (record->flags & CPU_SAMPLE_KERNEL_TRUNCATED) {
        add_truncated(s, r->frames, "kernel stack too deep");
        losses->count[LOSS_TRUNCATED]++;
    }
}

/* The mappings are read again when an address lies outside of all: by then nothing that was mapped unseen is
 * missing. */
static void look_again_for_mappings(struct sample_resolver *r, const struct process *process, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t address = r->user[i] & ~CPU_FRAME_EXACT;
        if (process_mapping_find(process, r->user[i] & CPU_FRAME_EXACT || !address ? address : address - 1))
            continue;
        processes_read_mappings(r->processes, process);
        return;
    }
}

/* The reason in words, NULL for a stack that is whole. */
static const char *end_text(unsigned end)
{
    static const char *const texts[UNWIND_END_COUNT] = {
        [UNWIND_END_NO_PROCESS] = "mappings not known yet",
        [UNWIND_END_NO_ROWS] = "unwinding rows not ready",
        [UNWIND_END_NO_MAPPING] = "address outside all code",
        [UNWIND_END_BAD_READ] = "stack not readable",
        [UNWIND_END_NO_CFI] = "no unwinding rules",
        [UNWIND_END_TOO_DEEP] = "stack too deep",
        [UNWIND_END_UNSUPPORTED] = "unwinding rule not supported",
    };
    if (end == UNWIND_END_ENTRY || end == UNWIND_END_NO_USER)
        return NULL;
    return end < UNWIND_END_COUNT && texts[end] ? texts[end] : "";
}

/* A program is being executed: the registers are still the old one's, but its stack is gone with the rest of
 * its memory, a little before its mappings go. There is nothing above the kernel's part, and so the stack is
 * whole without it. */
static bool is_executing(const struct cpu_sample *record, const struct process *process,
                         const struct sample *s)
{
    static const char *const functions[] = {"begin_new_exec", "load_elf_binary", "bprm_execve", "load_script",
                                            "load_misc_binary"};
    const uint64_t ip =
        record->user_frames ? record->data[record->kernel_frames] & ~CPU_FRAME_EXACT : record->stop_ip;
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

static unsigned finish(struct sample_resolver *r, const struct cpu_sample *record,
                       const struct process *process, size_t count, size_t *ret_more)
{
    return (unsigned)unwind_finish_sample(record, process, r->unwind_cache, r->user + count,
                                          CPU_MAX_USER_FRAMES - count, ret_more);
}

/* Into r->user; returns how many. */
static size_t walk_user(struct sample_resolver *r, const struct cpu_sample *record,
                        const struct process *process, unsigned *ret_end)
{
    size_t count = record->user_frames;
    unsigned end = record->user_end;
    memcpy(r->user, record->data + record->kernel_frames, count * sizeof(*r->user));
    if (record->stack_bytes && process) {
        size_t more = 0;
        end = finish(r, record, process, count, &more);
        /* Code that was mapped without a record, or before it came: walked once more by what is true now. */
        if ((end == UNWIND_END_NO_MAPPING || end == UNWIND_END_NO_CFI) &&
            processes_read_mappings(r->processes, process))
            end = finish(r, record, process, count, &more);
        count += more;
        if (end == UNWIND_END_NO_MAPPING && record->flags & CPU_SAMPLE_STOP_BY_FP && more == 0 && count > 0) {
            count--;
            end = UNWIND_END_NO_CFI;
        }
    }
    *ret_end = end;
    return count;
}

/* NULL when the stack is whole. */
static const char *count_end(unsigned end, struct losses *losses)
{
    const char *reason = end_text(end);
    if (reason)
        losses->count[end == UNWIND_END_NO_PROCESS || end == UNWIND_END_NO_ROWS ? LOSS_NO_ROWS
                                                                                : LOSS_TRUNCATED]++;
    return reason;
}

static void add_user(struct sample_resolver *r, const struct cpu_sample *record,
                     const struct process *process, struct losses *losses, struct sample *s)
{
    unsigned end;
    size_t count = walk_user(r, record, process, &end);
    if (process)
        look_again_for_mappings(r, process, count);
    s->frame_count +=
        resolve_user(r, process, r->user, count, r->frames + s->frame_count, CPU_MAX_USER_FRAMES);
    const char *reason = count_end(end, losses);
    if (reason)
        add_truncated(s, r->frames, reason);
}

static bool is_sound(const struct cpu_sample *record)
{
    if (record->h.size_bytes < sizeof(*record) || record->kernel_frames > CPU_MAX_KERNEL_FRAMES ||
        record->user_frames > CPU_MAX_USER_FRAMES || record->stack_bytes > CPU_STACK_COPY_BYTES)
        return false;
    const size_t frames = (size_t)record->kernel_frames + record->user_frames;
    return record->h.size_bytes >= sizeof(*record) + frames * sizeof(uint64_t) + record->stack_bytes;
}

static const struct resource *unknown_resource(struct sample_resolver *r, uint32_t pid)
{
    r->unknown = resource_unknown;
    r->unknown.pid = pid;
    r->unknown.command = r->unknown.service_name = r->thread_name;
    return &r->unknown;
}

int sample_resolve(struct sample_resolver *r, const struct cpu_sample *record, struct losses *losses,
                   struct sample *ret)
{
    struct sample s = {
        .time_ns = record->h.time_ns,
        .tid = record->h.tid,
        .thread_name = r->thread_name,
        .frames = r->frames,
    };
    texts_reset(r);
    r->unanswered = 0;
    r->thread_name[0] = '\0';
    if (!is_sound(record)) {
        losses->count[LOSS_DECODE]++;
        s.resource = unknown_resource(r, record->h.pid);
        *ret = s;
        return -EBADMSG;
    }
    s.weight_ns = record->weight_ns;
    s.cpu = record->cpu;
    memcpy(r->thread_name, record->comm, sizeof(record->comm));

    processes_at(r->processes, record->h.time_ns);
    const struct process *process = processes_find(r->processes, record->h.pid, record->cgroup_id);
    s.resource = process ? processes_resource(r->processes, process) : unknown_resource(r, record->h.pid);
    if (!process)
        losses->count[LOSS_NO_PROCESS]++;

    add_kernel(r, record, losses, &s);
    if (!process || !is_executing(record, process, &s))
        add_user(r, record, process, losses, &s);
    for (size_t i = 0; i < s.frame_count; i++)
        losses->count[LOSS_UNNAMED] += r->frames[i].kind != FRAME_TRUNCATED && !r->frames[i].function[0];
    losses->count[LOSS_FILE_UNANSWERED] += r->unanswered;
    losses->count[LOSS_UNNAMED] -= r->unanswered; /* each of them has no name */
    *ret = s;
    return process ? 0 : -ENOENT;
}

/* ---- stacks of other records ---- */

size_t sample_user_stack(struct sample_resolver *r, const struct cpu_sample *record,
                         const struct process *process, uint64_t *ret, size_t max, unsigned *ret_end)
{
    *ret_end = UNWIND_END_NO_USER;
    if (!is_sound(record))
        return 0;
    size_t count = walk_user(r, record, process, ret_end);
    if (count > max) {
        count = max;
        *ret_end = UNWIND_END_TOO_DEEP;
    }
    memcpy(ret, r->user, count * sizeof(*ret));
    return count;
}

size_t sample_resolve_user(struct sample_resolver *r, const struct process *process,
                           const uint64_t *addresses, size_t count, unsigned end, struct losses *losses,
                           struct frame *ret_frames, size_t max)
{
    texts_reset(r);
    if (count > array_size(r->user))
        count = array_size(r->user);
    memcpy(r->user, addresses, count * sizeof(*addresses));
    if (process)
        look_again_for_mappings(r, process, count);
    size_t n = resolve_user(r, process, r->user, count, ret_frames, max);
    const char *reason = count_end(end, losses);
    return reason ? sample_end_stack(reason, n, ret_frames, max) : n;
}

size_t sample_end_stack(const char *reason, size_t count, struct frame *ret_frames, size_t max)
{
    struct sample s = {.frame_count = count};
    if (count < max)
        add_truncated(&s, ret_frames, reason);
    return s.frame_count;
}
