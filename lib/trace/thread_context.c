/* The thread's context as OTEP 4947 has it: `otel_thread_ctx_v1`, a thread-local variable that anybody finds
 * in the dynamic symbol table, points to the record of the request that the thread works for. The reader has
 * stopped the thread, perhaps in the middle of what is below; so a record is never written while the variable
 * points to it, and nothing but the compiler has to be kept from reordering.
 *
 * A level of nesting has a record of its own. Entering writes the next and points to it, leaving points to
 * the one below. */
#include "thread_context.h"

#include "../export.h"
#include "node.h"
#include "probes.h"
#include "process_context.h"

#include <assert.h>
#include <string.h>

#define LEVELS              SONDE_TRACE_NESTING_MAX
#define RECORD_SIZE         128
#define ATTRIBUTES_SIZE_MAX (RECORD_SIZE - 28)

struct record { /* byte for byte the OTEP's */
    uint8_t trace_id[16], span_id[8];
    uint8_t valid, flags;
    uint16_t attributes_size;
    struct {
        uint8_t key, size;
        char value[ATTRIBUTES_SIZE_MAX - 2];
    } model_name;
};
static_assert(sizeof(struct record) == RECORD_SIZE && offsetof(struct record, model_name) == 28, "the layout");

struct level {
    const struct sonde_trace *trace; /* to know it by; it may have ended */
    struct trace_who who;
};

struct thread {
    const struct record *volatile *published; /* the thread's otel_thread_ctx_v1; NULL: not looked up yet */
    unsigned depth;
    struct level levels[LEVELS];
    struct record records[LEVELS];
};

static __thread struct thread this_thread;

/* Compiled for TLS descriptors (meson.build), as the OTEP prefers it. */
SONDE_EXPORT __thread const struct record *otel_thread_ctx_v1;

/* Out of line: glibc before 2.40 may lose vector registers when it resolves a descriptor (its bug 31372), and
 * here none is alive. */
__attribute__((noinline)) static struct thread *self(void)
{
    struct thread *thread = &this_thread;
    if (!thread->published)
        thread->published = &otel_thread_ctx_v1;
    return thread;
}

static void publish(struct thread *thread, const struct record *record)
{
    atomic_signal_fence(memory_order_seq_cst);
    *thread->published = record;
    atomic_signal_fence(memory_order_seq_cst);
}

/* A name that does not fit, or is not ASCII and may not be UTF-8, is left out: half of it would be another's.
 */
static void put_model_name(struct record *r, const char *name)
{
    size_t size = 0;
    while (size < sizeof(r->model_name.value) && name[size] && (unsigned char)name[size] < 0x80) {
        r->model_name.value[size] = name[size];
        size++;
    }
    r->model_name.key = TRACE_PROCESS_CONTEXT_MODEL_NAME;
    r->model_name.size = (uint8_t)size;
    r->attributes_size = name[size] ? 0 : (uint16_t)(2 + size);
}

/* The record that is published, the last, is only read here, until its copy is in place. */
static void take_out(struct thread *thread, unsigned level)
{
    unsigned above = --thread->depth - level;
    if (above > 0) {
        memmove(&thread->levels[level], &thread->levels[level + 1], above * sizeof(*thread->levels));
        memmove(&thread->records[level], &thread->records[level + 1], above * sizeof(*thread->records));
    }
    publish(thread, thread->depth ? &thread->records[thread->depth - 1] : NULL);
}

static void say_what_holds(const struct thread *thread)
{
    static const struct trace_who none;
    if (trace_probes_heard())
        trace_probes_leave(thread->depth ? &thread->levels[thread->depth - 1].who : &none);
}

/* Of more levels than there is room for the outermost is forgotten: that the thread works for the innermost
 * stays true. */
void trace_thread_context_enter(struct sonde_trace *t)
{
    struct thread *thread = self();
    if (thread->depth == LEVELS)
        take_out(thread, 0);
    struct level *level = &thread->levels[thread->depth];
    struct record *r = &thread->records[thread->depth];
    *level = (struct level){t, trace_who(t)};
    memcpy(r->trace_id, level->who.trace_id, sizeof(r->trace_id));
    memcpy(r->span_id, &level->who.span_id, sizeof(r->span_id));
    r->valid = 1;
    r->flags = t->tree->context.flags;
    r->attributes_size = 0;
    if (trace_process_context_is_ours())
        put_model_name(r, t->model_name);
    thread->depth++;
    publish(thread, r);
    if (trace_probes_heard())
        trace_probes_enter(&level->who);
}

void trace_thread_context_leave(const struct sonde_trace *t)
{
    struct thread *thread = self();
    for (unsigned i = thread->depth; i-- > 0;)
        if (thread->levels[i].trace == t) {
            take_out(thread, i);
            say_what_holds(thread);
            return;
        }
}

void trace_thread_context_end(const struct sonde_trace *t)
{
    struct thread *thread = self();
    unsigned before = thread->depth;
    for (unsigned i = before; i-- > 0;)
        if (thread->levels[i].trace == t)
            take_out(thread, i);
    if (thread->depth < before)
        say_what_holds(thread);
}

void trace_thread_context_clear(void)
{
    struct thread *thread = self();
    thread->depth = 0;
    publish(thread, NULL);
}
