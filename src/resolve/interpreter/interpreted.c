/* Reads the interpreter frames of a record, and places their marks; see interpreted.h. */
#include "resolve/interpreter/interpreted.h"

#include <string.h>

static void remove_marks(struct interpreted *x)
{
    size_t count = 0;
    for (size_t i = 0; i < x->count; i++)
        if (!interpreter_entry_is_mark(&x->entries[i]))
            x->entries[count++] = x->entries[i];
    x->count = count;
}

void interpreted_read(struct interpreted *x, const struct stack_record *record)
{
    x->count = x->next_mark = 0;
    x->kind = 0;
    x->end = INTERPRETER_END_WHOLE;
    x->is_counted = x->is_several = x->is_placed = false;
    x->pid = record->h.pid;
    x->was_walked = record->flags & STACK_RECORD_INTERPRETED;
    if (!x->was_walked)
        return;
    const struct interpreter_tail *tail = stack_record_interpreter_tail(record);
    x->count = tail->entries;
    x->kind = tail->interpreter;
    x->end = tail->end;
    memcpy(x->entries, (const char *)tail - x->count * sizeof(*x->entries), x->count * sizeof(*x->entries));
    x->is_counted = tail->flags & INTERPRETER_TAIL_COUNTED;
    x->is_several = tail->flags & INTERPRETER_TAIL_SEVERAL;
    x->is_placed = tail->flags & INTERPRETER_TAIL_PLACED;
    if (x->is_counted || x->is_placed)
        remove_marks(x);
    for (size_t i = 0; i < x->count && !x->is_several; i++)
        if (interpreter_entry_is_mark(&x->entries[i]) && x->entries[i].instruction)
            x->next_mark = i + 1;
}

static void resolve_any_mark(struct interpreted *x, size_t frame, uint64_t low, uint64_t high)
{
    for (size_t i = 0; i < x->count; i++) {
        struct interpreter_entry *e = &x->entries[i];
        const uint64_t address = e->code & ~INTERPRETER_ENTRY_MARK;
        if (interpreter_entry_is_mark(e) && !e->instruction && address >= low && address < high)
            e->instruction = (uint32_t)frame + 1;
    }
}

void interpreted_pass(struct interpreted *x, size_t frame, uint64_t low, uint64_t high)
{
    if (x->is_several) {
        resolve_any_mark(x, frame, low, high);
        return;
    }
    for (; x->next_mark < x->count; x->next_mark++) {
        struct interpreter_entry *e = &x->entries[x->next_mark];
        if (!interpreter_entry_is_mark(e))
            continue;
        const uint64_t address = e->code & ~INTERPRETER_ENTRY_MARK;
        if (address >= high)
            return;
        if (address >= low)
            e->instruction = (uint32_t)frame + 1;
    }
}
