/* Joins interpreter frames with native frames; see interpreted.h. */
#include "resolve/interpreter/interpreted.h"

#include <stdlib.h>
#include <string.h>

static bool is_mark(const struct interpreter_entry *e)
{
    return (e->code & INTERPRETER_ENTRY_MARK) != 0;
}

static void remove_marks(struct interpreted *x)
{
    size_t count = 0;
    for (size_t i = 0; i < x->count; i++)
        if (!is_mark(&x->entries[i]))
            x->entries[count++] = x->entries[i];
    x->count = count;
}

void interpreted_read(struct interpreted *x, const struct stack_record *record)
{
    x->count = x->next_mark = x->taken = 0;
    x->kind = 0;
    x->end = INTERPRETER_END_WHOLE;
    x->is_counted = x->is_several = x->is_placed = false;
    x->skipped = 0;
    if (!(record->flags & STACK_RECORD_INTERPRETED))
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
        if (is_mark(&x->entries[i]) && x->entries[i].instruction)
            x->next_mark = i + 1;
}

static void resolve_any_mark(struct interpreted *x, size_t frame, uint64_t low, uint64_t high)
{
    for (size_t i = 0; i < x->count; i++) {
        struct interpreter_entry *e = &x->entries[i];
        const uint64_t address = e->code & ~INTERPRETER_ENTRY_MARK;
        if (is_mark(e) && !e->instruction && address >= low && address < high)
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
        if (!is_mark(e))
            continue;
        const uint64_t address = e->code & ~INTERPRETER_ENTRY_MARK;
        if (address >= high)
            return;
        if (address >= low)
            e->instruction = (uint32_t)frame + 1;
    }
}

struct run {
    size_t first, count; /* including its mark */
    uint32_t place;      /* interpreter_entry.instruction of the mark */
};

static int compare_runs(const void *left, const void *right)
{
    const struct run *a = left, *b = right;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return a->first < b->first ? -1 : 1;
}

void interpreted_settle(struct interpreted *x)
{
    struct run runs[INTERPRETER_MAX_ENTRIES];
    struct interpreter_entry settled[INTERPRETER_MAX_ENTRIES];
    size_t run_count = 0, count = 0;
    if (!x->is_several || x->is_counted)
        return;
    for (size_t i = 0, first = 0; i < x->count; i++) {
        if (!is_mark(&x->entries[i]))
            continue;
        if (x->entries[i].instruction)
            runs[run_count++] = (struct run){first, i + 1 - first, x->entries[i].instruction};
        first = i + 1;
    }
    qsort(runs, run_count, sizeof(*runs), compare_runs);
    for (size_t i = 0; i < run_count; count += runs[i++].count)
        memcpy(settled + count, x->entries + runs[i].first, runs[i].count * sizeof(*settled));
    memcpy(x->entries, settled, count * sizeof(*settled));
    x->count = count;
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
    for (size_t i = 0; i < count; i++) /* a run without frames: the native frame stays */
        if (!is_mark(&x->entries[*ret_first + i]))
            return count;
    return 0;
}

/* Entries must be in the order of their frames. Others, which only a forged recording has, stay behind. */
size_t interpreted_take_placed(struct interpreted *x, size_t frame, size_t *ret_first, bool *ret_stays)
{
    if (!interpreted_is_next(x, frame))
        return 0;
    *ret_stays = x->entries[x->taken].instruction & INTERPRETER_ENTRY_CALLER;
    *ret_first = x->taken;
    while (interpreted_is_next(x, frame))
        x->taken++;
    return x->taken - *ret_first;
}

bool interpreted_is_next(const struct interpreted *x, size_t frame)
{
    return x->is_placed && x->taken < x->count &&
           (x->entries[x->taken].instruction & INTERPRETER_ENTRY_FRAME) == frame + 1;
}

bool interpreted_is_joined(const struct interpreted *x)
{
    return !x->is_placed && x->taken > 0;
}

/* Only the leaf evaluator of a thread can lack a frame. If evaluators still outnumber frames, the oldest ones belong to
 * a stack that was switched away from, or to another interpreter; with several interpreters the frames cannot be
 * attributed. */
void interpreted_fit(struct interpreted *x, const struct interpreted_evaluators *evaluators)
{
    const bool all = evaluators->is_whole && x->end == INTERPRETER_END_WHOLE;
    x->skipped = 0;
    if (evaluators->is_whole && evaluators->count < x->count) /* some evaluators were not recognised by name */
        x->skipped = SIZE_MAX;
    else if (all && evaluators->count == x->count + 1 && evaluators->leaf_is_entering)
        x->skipped = 1;
    else if (x->is_several && (!all || evaluators->count != x->count))
        x->skipped = SIZE_MAX;
}

size_t interpreted_take_counted(struct interpreted *x, size_t *ret_first)
{
    *ret_first = x->taken;
    if (x->skipped == SIZE_MAX || x->taken == x->count)
        return 0;
    if (x->skipped) {
        x->skipped--;
        return 0;
    }
    x->taken++;
    return 1;
}

bool interpreted_places_left(const struct interpreted *x)
{
    if (x->is_counted)
        return x->skipped != SIZE_MAX && x->taken < x->count;
    if (x->is_placed)
        return x->taken < x->count;
    for (size_t i = x->taken; i < x->count; i++)
        if (is_mark(&x->entries[i]) && x->entries[i].instruction)
            return true;
    return false;
}
