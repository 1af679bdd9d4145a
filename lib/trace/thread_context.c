/* The thread context of OTEP 4947: `otel_thread_ctx_v1`, a thread-local variable in the dynamic symbol table, points to
 * the record of the request that the thread works for. A reader stops the thread, possibly within this code; so a
 * record is never modified while the variable points to it, and only compiler reordering must be prevented.
 *
 * Each nesting level has its own record. Entering writes the next one and points to it, leaving points to the one
 * below. */
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

struct record { /* the layout of the OTEP, byte for byte */
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
    const struct sonde_trace *trace; /* for comparison only; it may have ended */
    struct trace_identity who;
};

struct thread {
    const struct record *volatile *published; /* the thread's otel_thread_ctx_v1; NULL: not looked up yet */
    unsigned depth;
    struct level levels[LEVELS];
    struct record records[LEVELS];
};

static __thread struct thread this_thread;

/* Compiled for TLS descriptors (meson.build), as the OTEP recommends. */
SONDE_EXPORT __thread const struct record *otel_thread_ctx_v1;

/* Not inlined: glibc before 2.40 may clobber vector registers when it resolves a descriptor (its bug 31372), and none
 * are live here. */
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

/* A name that does not fit, or is not ASCII and so possibly not UTF-8, is omitted: a truncated one would be another
 * name. */
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

/* The published record, the last one, is only read here, until its copy is published. */
static void remove_level(struct thread *thread, unsigned level)
{
    unsigned above = --thread->depth - level;
    if (above > 0) {
        memmove(&thread->levels[level], &thread->levels[level + 1], above * sizeof(*thread->levels));
        memmove(&thread->records[level], &thread->records[level + 1], above * sizeof(*thread->records));
    }
    publish(thread, thread->depth ? &thread->records[thread->depth - 1] : NULL);
}

static void fire_leave(const struct thread *thread)
{
    static const struct trace_identity none;
    if (trace_probes_enabled())
        trace_probes_leave(thread->depth ? &thread->levels[thread->depth - 1].who : &none);
}

/* Beyond the nesting limit the outermost level is forgotten; the published innermost one stays correct. */
void trace_thread_context_enter(struct sonde_trace *t)
{
    struct thread *thread = self();
    if (thread->depth == LEVELS)
        remove_level(thread, 0);
    struct level *level = &thread->levels[thread->depth];
    struct record *r = &thread->records[thread->depth];
    *level = (struct level){t, trace_identity(t)};
    memcpy(r->trace_id, level->who.trace_id, sizeof(r->trace_id));
    memcpy(r->span_id, &level->who.span_id, sizeof(r->span_id));
    r->valid = 1;
    r->flags = t->tree->context.flags;
    r->attributes_size = 0;
    if (trace_process_context_is_ours())
        put_model_name(r, t->model_name);
    thread->depth++;
    publish(thread, r);
    if (trace_probes_enabled())
        trace_probes_enter(&level->who);
}

void trace_thread_context_leave(const struct sonde_trace *t)
{
    struct thread *thread = self();
    for (unsigned i = thread->depth; i-- > 0;)
        if (thread->levels[i].trace == t) {
            remove_level(thread, i);
            fire_leave(thread);
            return;
        }
}

void trace_thread_context_end(const struct sonde_trace *t)
{
    struct thread *thread = self();
    unsigned before = thread->depth;
    for (unsigned i = before; i-- > 0;)
        if (thread->levels[i].trace == t)
            remove_level(thread, i);
    if (thread->depth < before)
        fire_leave(thread);
}

void trace_thread_context_clear(void)
{
    struct thread *thread = self();
    thread->depth = 0;
    publish(thread, NULL);
}
