/* Joining the interpreter's frames with native ones; see interpreted.h. */
#include "resolve/interpreted.h"

#include <string.h>

static bool is_mark(const struct python_entry *e)
{
    return (e->code & PYTHON_MARK) != 0;
}

void interpreted_read(struct interpreted *x, const struct cpu_sample *record)
{
    x->count = x->next_mark = x->taken = 0;
    x->end = PYTHON_END_WHOLE;
    if (!(record->flags & CPU_SAMPLE_INTERPRETED))
        return;
    const uint32_t link_bytes = record->flags & CPU_SAMPLE_LINKED ? sizeof(struct link_ids) : 0;
    const struct python_tail *tail = cpu_sample_python_tail(record, link_bytes);
    x->count = tail->entries;
    x->end = tail->end;
    memcpy(x->entries, (const char *)tail - x->count * sizeof(*x->entries), x->count * sizeof(*x->entries));
    for (size_t i = 0; i < x->count; i++)
        if (is_mark(&x->entries[i]) && x->entries[i].instruction)
            x->next_mark = i + 1;
}

void interpreted_pass(struct interpreted *x, size_t frame, uint64_t low, uint64_t high)
{
    for (; x->next_mark < x->count; x->next_mark++) {
        struct python_entry *e = &x->entries[x->next_mark];
        if (!is_mark(e))
            continue;
        const uint64_t address = e->code & ~PYTHON_MARK;
        if (address >= high)
            return;
        if (address >= low)
            e->instruction = (uint32_t)frame + 1;
    }
}

size_t interpreted_take(struct interpreted *x, size_t frame, size_t *ret_first)
{
    size_t end = x->taken;
    for (size_t i = x->taken; i < x->count; i++) {
        if (!is_mark(&x->entries[i]))
            continue;
        if (x->entries[i].instruction > frame + 1)
            break;
        if (x->entries[i].instruction == frame + 1)
            end = i + 1;
    }
    *ret_first = x->taken;
    const size_t count = end - x->taken;
    x->taken = end;
    for (size_t i = 0; i < count; i++) /* of a run that has no frames yet, its native one stays */
        if (!is_mark(&x->entries[*ret_first + i]))
            return count;
    return 0;
}

bool interpreted_places_left(const struct interpreted *x)
{
    for (size_t i = x->taken; i < x->count; i++)
        if (is_mark(&x->entries[i]) && x->entries[i].instruction)
            return true;
    return false;
}
