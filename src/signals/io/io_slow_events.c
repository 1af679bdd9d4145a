/* Events from records of slow operations; see io_slow_events.h. */
#include "signals/io/io_slow_events.h"

#include "base/units.h"
#include "diagnose/code/stack_text.h"
#include "resolve/sample/samples.h"
#include "signals/event_rate.h"
#include "signals/io/io_metrics.h"
#include "signals/io/io_names.h"
#include "signals/signal.h"
#include "sources/io/io_path.h"

#include <linux/types.h>

#include "probes/io.h"
#include "probes/unwind/stack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PENDING_MAX 256            /* operations that go on; of further ones there are no events until they end */
#define FORGET_NS   60000000000ull /* after which one that no walk found any more gives way */
#define STACK_BYTES 400
#define PATH_BYTES  (2 * IO_PATH_BYTES)

struct pending {
    uint32_t tid;
    bool is_reported;
    uint64_t start_ns, found_ns;
    char stack[STACK_BYTES]; /* ": fuse_read_folio < ..." */
};

struct io_slow_events {
    const struct signal_services *services;
    struct io_names *names;
    uint64_t hung_ns;
    struct event_rate rate;
    struct pending pending[PENDING_MAX];
    struct stack_record *stack; /* with room for IO_STACK_FRAMES */
};

int io_slow_events_new(const struct signal_services *services, struct io_names *names, uint64_t hung_ns,
                       struct io_slow_events **ret)
{
    _cleanup_(io_slow_events_freep) struct io_slow_events *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    e->services = services;
    e->names = names;
    e->hung_ns = hung_ns;
    e->stack = calloc(1, sizeof(*e->stack) + 8 * IO_STACK_FRAMES);
    if (!e->stack)
        return -ENOMEM;
    *ret = take_ptr(e);
    return 0;
}

void io_slow_events_free(struct io_slow_events *e)
{
    if (!e)
        return;
    free(e->stack);
    free(e);
}

bool io_slow_check(const struct record_header *header)
{
    const struct io_slow *s = (const struct io_slow *)header;
    return header->size_bytes == sizeof(*s) && memchr(s->comm, 0, sizeof(s->comm)) && s->frames <= IO_STACK_FRAMES &&
           s->start_ns <= header->time_ns && s->operation < IO_OPERATIONS;
}

/* ---- operations that go on ---- */

static struct pending *find_pending(struct io_slow_events *e, const struct io_slow *s)
{
    for (size_t i = 0; i < PENDING_MAX; i++)
        if (e->pending[i].tid == s->h.tid && e->pending[i].start_ns == s->start_ns)
            return &e->pending[i];
    return NULL;
}

/* NULL: there is no room: those that the last walks found are kept, so that each is one event. */
static struct pending *add_pending(struct io_slow_events *e, const struct io_slow *s)
{
    struct pending *oldest = &e->pending[0];
    for (size_t i = 1; i < PENDING_MAX; i++)
        if (e->pending[i].found_ns < oldest->found_ns)
            oldest = &e->pending[i];
    if (oldest->found_ns && oldest->found_ns + FORGET_NS > s->h.time_ns)
        return NULL;
    *oldest = (struct pending){.tid = s->h.tid, .start_ns = s->start_ns};
    return oldest;
}

static void describe_stack(struct io_slow_events *e, const struct io_slow *s, struct pending *p)
{
    struct stack_record *record = e->stack;
    struct losses none = {0};
    struct sample sample = {0};
    const size_t frame_bytes = 8 * (size_t)s->frames;
    *record = (struct stack_record){.h = s->h, .kernel_frames = (uint8_t)s->frames, .user_end = UNWIND_END_NO_USER};
    record->h.size_bytes = (uint32_t)(sizeof(*record) + frame_bytes);
    memcpy(record->comm, s->comm, sizeof(record->comm));
    memcpy(record->data, s->stack, frame_bytes);
    p->stack[0] = '\0';
    if (s->frames && sample_resolve(e->services->resolver, record, &none, &sample) != -EBADMSG)
        stack_text_append_kernel(sample.frames, sample.frame_count, p->stack, sizeof(p->stack));
}

/* ---- events ---- */

static void write_path(struct io_slow_events *e, const struct io_slow *s, char *path, size_t size, char *type,
                       size_t type_size)
{
    const struct io_named *mount = s->mount ? io_names_mount(e->names, s->mount) : NULL;
    char below[IO_PATH_BYTES];
    snprintf(type, type_size, "%s", mount ? mount->type : "");
    if (!mount) {
        snprintf(path, size, "a path");
    } else if (!s->file.size) {
        snprintf(path, size, "a file of %s", mount->path);
    } else {
        io_path_format(&s->file, below, sizeof(below));
        io_named_join(mount, below, s->file.is_outside, path, size);
    }
}

static void emit(struct io_slow_events *e, const struct io_slow *s, const char *stack)
{
    char path[PATH_BYTES], type[64], text[PATH_BYTES + STACK_BYTES + 256], duration[32], pid[16], tid[16], offset[32];
    const uint64_t ns = s->h.time_ns - s->start_ns;
    const char *operation = io_metrics_operation(s->operation);
    write_path(e, s, path, sizeof(path), type, sizeof(type));
    units_format_duration(ns, duration, sizeof(duration));
    snprintf(text, sizeof(text), "%s (thread %" PRIu32 ") %s %s: %s of %s%s%s%s%s", s->comm, s->h.tid,
             s->is_pending ? "has been waiting for" : "waited", duration, operation, path, type[0] ? " (" : "", type,
             type[0] ? ")" : "", stack);
    snprintf(pid, sizeof(pid), "%" PRIu32, s->h.pid);
    snprintf(tid, sizeof(tid), "%" PRIu32, s->h.tid);
    snprintf(offset, sizeof(offset), "%" PRIu64, (uint64_t)s->offset);
    const struct node_event_attribute attributes[] = {{"process.pid", pid},
                                                      {"thread.id", tid},
                                                      {"thread.name", s->comm},
                                                      {"io.operation", operation},
                                                      {"file.path", path},
                                                      {"io.file_system", type},
                                                      {"io.stack", stack[0] ? stack + 2 : ""},
                                                      {"io.offset", offset}};
    e->services->emit_event(
        e->services->pipeline,
        &(struct node_event){.time_ns = s->h.time_ns,
                             .duration_ns = ns,
                             .name = s->is_pending ? "io.hung" : "io.slow",
                             .text = text,
                             .attributes = attributes,
                             .attribute_count = array_size(attributes) - (s->offset == IO_OFFSET_UNKNOWN)});
}

static void take_pending(struct io_slow_events *e, const struct io_slow *s)
{
    struct pending *p = find_pending(e, s) ?: add_pending(e, s);
    if (!p)
        return;
    p->found_ns = s->h.time_ns;
    if (!p->is_reported)
        describe_stack(e, s, p);
    if (p->is_reported || s->h.time_ns - s->start_ns < e->hung_ns || !event_rate_allows(&e->rate, s->h.time_ns))
        return;
    p->is_reported = true;
    emit(e, s, p->stack);
}

void io_slow_events_take(struct io_slow_events *e, const struct record_header *header)
{
    const struct io_slow *s = (const struct io_slow *)header;
    if (s->is_pending) {
        take_pending(e, s);
        return;
    }
    struct pending *p = find_pending(e, s);
    if (event_rate_allows(&e->rate, s->h.time_ns))
        emit(e, s, p ? p->stack : "");
    if (p)
        *p = (struct pending){0};
}
