/* The table of interpreters, and dispatch to one or all of them; see interpreters.h. */
#include "resolve/interpreter/interpreters.h"

#include "probes/unwind/stack.h"

#include <errno.h>
#include <stdlib.h>

const struct interpreter *const interpreters_known[INTERPRETER_COUNT] = {
    [INTERPRETER_CPYTHON] = &interpreter_cpython,
    [INTERPRETER_V8] = &interpreter_v8,
    [INTERPRETER_HOTSPOT] = &interpreter_hotspot,
};

struct interpreters {
    size_t count;
    struct {
        const struct interpreter *interpreter;
        void *self;
    } of[];
};

int interpreters_new(const struct interpreter *const *known, size_t count, size_t max_bytes, struct interpreters **ret)
{
    _cleanup_(interpreters_freep) struct interpreters *x = calloc(1, sizeof(*x) + count * sizeof(x->of[0]));
    if (!x)
        return -ENOMEM;
    size_t shares = 0;
    for (size_t i = 0; i < count; i++)
        shares += known[i]->memory_share;
    for (; x->count < count; x->count++) {
        x->of[x->count].interpreter = known[x->count];
        int r = known[x->count]->open(max_bytes / shares * known[x->count]->memory_share, &x->of[x->count].self);
        if (r < 0)
            return r;
    }
    *ret = take_ptr(x);
    return 0;
}

void interpreters_free(struct interpreters *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->count; i++)
        x->of[i].interpreter->free(x->of[i].self);
    free(x);
}

void interpreters_limit_cache(struct interpreters *x, size_t entries)
{
    for (size_t i = 0; i < x->count; i++)
        if (x->of[i].interpreter->limit_cache)
            x->of[i].interpreter->limit_cache(x->of[i].self, entries);
}

void interpreters_read_by(struct interpreters *x, read_memory read, struct processes *processes)
{
    for (size_t i = 0; i < x->count; i++)
        if (x->of[i].interpreter->read_by)
            x->of[i].interpreter->read_by(x->of[i].self, read, processes);
}

int interpreters_layout(struct interpreters *x, const struct process *process, struct interpreter_layouts *ret)
{
    int soonest = 0;
    *ret = (struct interpreter_layouts){0};
    for (size_t i = 0; i < x->count; i++) {
        int r = x->of[i].interpreter->layout(x->of[i].self, process, ret);
        if (r == -EAGAIN || (r == -EBUSY && soonest == 0))
            soonest = r;
    }
    return soonest;
}

bool interpreters_walk_code(const struct interpreters *x, const struct process *process)
{
    for (size_t i = 0; i < x->count; i++)
        if (x->of[i].interpreter->walks_code && x->of[i].interpreter->walks_code(x->of[i].self, process))
            return true;
    return false;
}

void interpreters_walk_sleeping(struct interpreters *x, const struct sleeping_thread *thread,
                                struct stack_record *record)
{
    for (size_t i = 0; i < x->count && !(record->flags & STACK_RECORD_INTERPRETED); i++)
        if (x->of[i].interpreter->walk_sleeping)
            (void)x->of[i].interpreter->walk_sleeping(x->of[i].self, thread, record);
}

int interpreters_take(struct interpreters *x, const struct record_header *record)
{
    for (size_t i = 0; i < x->count; i++)
        if (x->of[i].interpreter->record_kind == record->kind)
            return x->of[i].interpreter->take(x->of[i].self, record);
    return -EBADMSG;
}

const struct interpreter *interpreters_get(const struct interpreters *x, unsigned kind)
{
    return kind < x->count ? x->of[kind].interpreter : NULL;
}

int interpreters_find(struct interpreters *x, unsigned kind, uint32_t pid, const struct interpreter_entry *entry,
                      struct interpreted_name *ret)
{
    return kind < x->count ? x->of[kind].interpreter->find(x->of[kind].self, pid, entry, ret) : -ENOENT;
}

int interpreters_evaluator(const struct interpreters *x, const char *function)
{
    for (size_t i = 0; i < x->count; i++)
        if (x->of[i].interpreter->is_evaluator(function))
            return (int)i;
    return -ENOENT;
}

size_t interpreters_missing(struct interpreters *x, struct missing_code *ret, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < x->count && count < max; i++)
        count += x->of[i].interpreter->missing(x->of[i].self, ret + count, max - count);
    return count;
}

const char *interpreters_unsupported(const struct interpreters *x, size_t *from)
{
    while (*from < x->count) {
        const struct interpreter *interpreter = x->of[*from].interpreter;
        if (interpreter->unsupported(x->of[(*from)++].self))
            return interpreter->name;
    }
    return NULL;
}

void interpreters_metrics(const struct interpreters *x, struct metric_set *set)
{
    for (size_t i = 0; i < x->count; i++)
        x->of[i].interpreter->metrics(x->of[i].self, set);
}
