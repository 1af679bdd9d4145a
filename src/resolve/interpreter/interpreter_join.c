/* Joins interpreter frames with native frames; see interpreter_join.h. The record says in one of three ways where its
 * entries belong (probes/interpreter/interpreter.h):
 * - By marks: a run of entries ends with a mark, an address on the stack of the native frame that executes the run. The
 * BPF side's walk identifies that frame. Where user space completed the walk, it is identified here.
 * - Placed (V8, HotSpot): each entry has the number of its native frame.
 * - Counted: each entry has one evaluator. The entries are matched in order, from the leaf, with the evaluators among
 * the native frames, which are recognised by name. */
#include "resolve/interpreter/interpreter_join.h"

#include "resolve/interpreter/interpreters.h"
#include "resolve/unwind/unwind.h"

#include <stdlib.h>
#include <string.h>

/* Counted entries do not match the evaluators. */
#define NO_MATCH SIZE_MAX

struct join {
    struct interpreters *interpreters;
    const struct interpreter *interpreter; /* whose frames the record has; NULL: unknown */
    uint32_t pid;
    unsigned kind;   /* enum interpreter_kind */
    bool was_walked; /* STACK_RECORD_INTERPRETED: the BPF side searched for frames, if in vain */
    bool is_counted; /* INTERPRETER_TAIL_COUNTED: no marks are left */
    bool is_placed;  /* INTERPRETER_TAIL_PLACED: no marks are left */
    bool is_several; /* INTERPRETER_TAIL_SEVERAL: runs of several interpreters, marks in any order */
    const char *cut; /* why the interpreter frames are incomplete; NULL: they are complete */
    struct interpreter_entry *entries;
    size_t entry_count;
    size_t taken;      /* entries before this index are in `ret` */
    size_t skipped;    /* counted entries: leaf evaluators without a frame, or NO_MATCH */
    struct frame *ret; /* leaf first */
    size_t count;      /* of `ret` */
    bool is_whole;     /* so far, the interpreter frames are complete, placed and named */
    bool is_ended;     /* frames of an incompletely walked run replace the last evaluator: no native frame follows */
};

static bool is_mark(const struct interpreter_entry *e)
{
    return (e->code & INTERPRETER_ENTRY_MARK) != 0;
}

/* ---- the entries of the record ---- */

/* Why the interpreter frames are incomplete; NULL: they are complete. */
static const char *find_cut(unsigned end)
{
    static const char *const texts[INTERPRETER_END_COUNT] = {
        [INTERPRETER_END_TOO_DEEP] = "interpreter's stack too deep",
        [INTERPRETER_END_BAD_READ] = "interpreter's stack not readable",
        [INTERPRETER_END_TORN] = "interpreter's stack changed while it was read",
        [INTERPRETER_END_SEVERAL] = "several interpreters in one thread",
    };
    if (end == INTERPRETER_END_WHOLE)
        return NULL;
    return end < INTERPRETER_END_COUNT && texts[end] ? texts[end] : ""; /* "": of a newer version */
}

static void remove_marks(struct join *j)
{
    size_t count = 0;
    for (size_t i = 0; i < j->entry_count; i++)
        if (!is_mark(&j->entries[i]))
            j->entries[count++] = j->entries[i];
    j->entry_count = count;
}

/* Copies the entries to j->entries; none if the record has none. */
static void read_entries(struct join *j, const struct stack_record *record)
{
    j->pid = record->h.pid;
    j->was_walked = record->flags & STACK_RECORD_INTERPRETED;
    if (!j->was_walked)
        return;
    const struct interpreter_tail *tail = stack_record_interpreter_tail(record);
    j->kind = tail->interpreter;
    j->cut = find_cut(tail->end);
    j->is_counted = tail->flags & INTERPRETER_TAIL_COUNTED;
    j->is_several = tail->flags & INTERPRETER_TAIL_SEVERAL;
    j->is_placed = tail->flags & INTERPRETER_TAIL_PLACED;
    j->entry_count = tail->entries;
    const size_t bytes = j->entry_count * sizeof(*j->entries);
    memcpy(j->entries, (const char *)tail - bytes, bytes);
    if (j->is_counted || j->is_placed)
        remove_marks(j);
}

/* ---- marks of a stack that user space walked ---- */

/* Native frame `frame` has [low, high) of the stack. */
static void resolve_any_mark(struct join *j, size_t frame, uint64_t low, uint64_t high)
{
    for (size_t i = 0; i < j->entry_count; i++) {
        struct interpreter_entry *e = &j->entries[i];
        const uint64_t address = e->code & ~INTERPRETER_ENTRY_MARK;
        if (is_mark(e) && !e->instruction && address >= low && address < high)
            e->instruction = (uint32_t)frame + 1;
    }
}

/* Marks before entry `next` are behind the walk. Returns the new `next`. */
static size_t resolve_next_marks(struct join *j, size_t next, size_t frame, uint64_t low, uint64_t high)
{
    for (; next < j->entry_count; next++) {
        struct interpreter_entry *e = &j->entries[next];
        const uint64_t address = e->code & ~INTERPRETER_ENTRY_MARK;
        if (!is_mark(e))
            continue;
        if (address >= high)
            break;
        if (address >= low)
            e->instruction = (uint32_t)frame + 1;
    }
    return next;
}

static void resolve_marks(struct join *j, const struct unwind_spans *spans)
{
    size_t next = 0;
    for (size_t i = 0; i < j->entry_count; i++)
        if (is_mark(&j->entries[i]) && j->entries[i].instruction)
            next = i + 1;
    for (size_t i = 0; i < spans->count; i++) {
        const uint64_t low = spans->sp[i], high = spans->sp[i + 1];
        if (j->is_several)
            resolve_any_mark(j, spans->first + i, low, high);
        else
            next = resolve_next_marks(j, next, spans->first + i, low, high);
    }
}

/* ---- the order of runs ---- */

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

/* With several interpreters, keeps the runs whose native frames were found, in stack order. The other runs belong to
 * another thread or cannot be attributed. */
static void order_runs(struct join *j)
{
    struct run runs[INTERPRETER_MAX_ENTRIES];
    struct interpreter_entry ordered[INTERPRETER_MAX_ENTRIES];
    size_t run_count = 0, count = 0;
    for (size_t i = 0, first = 0; i < j->entry_count; i++) {
        if (!is_mark(&j->entries[i]))
            continue;
        if (j->entries[i].instruction)
            runs[run_count++] = (struct run){first, i + 1 - first, j->entries[i].instruction};
        first = i + 1;
    }
    qsort(runs, run_count, sizeof(*runs), compare_runs);
    for (size_t i = 0; i < run_count; count += runs[i++].count)
        memcpy(ordered + count, j->entries + runs[i].first, runs[i].count * sizeof(*ordered));
    memcpy(j->entries, ordered, count * sizeof(*ordered));
    j->entry_count = count;
}

/* ---- the entries that replace a native frame ---- */

static size_t entries_left(const struct join *j)
{
    return j->entry_count - j->taken;
}

/* Entries with marks. Native frames must be passed in order. Returns 0 for a run without frames. */
static size_t take_run(struct join *j, size_t frame)
{
    const struct interpreter_entry *entries = j->entries;
    const size_t first = j->taken;
    for (size_t i = first; i < j->entry_count; i++) {
        if (!is_mark(&entries[i]))
            continue;
        if (entries[i].instruction > frame + 1)
            break;
        if (entries[i].instruction == frame + 1)
            j->taken = i + 1;
    }
    for (size_t i = first; i < j->taken; i++)
        if (!is_mark(&entries[i]))
            return j->taken - first;
    return 0;
}

/* Whether the next entry is placed at native frame `frame`. */
static bool is_placed_next(const struct join *j, size_t frame)
{
    return j->is_placed && entries_left(j) > 0 &&
           (j->entries[j->taken].instruction & INTERPRETER_ENTRY_FRAME) == frame + 1;
}

/* Entries must be in the order of their frames. Others, which only a forged recording has, stay behind. `*ret_stays`:
 * the native frame stays as well, above the entries, which called it. */
static size_t take_placed(struct join *j, size_t frame, bool *ret_stays)
{
    const size_t first = j->taken;
    if (!is_placed_next(j, frame))
        return 0;
    *ret_stays = j->entries[first].instruction & INTERPRETER_ENTRY_CALLER;
    while (is_placed_next(j, frame))
        j->taken++;
    return j->taken - first;
}

/* The entry of the next evaluator. */
static size_t take_counted(struct join *j)
{
    if (j->skipped == NO_MATCH || entries_left(j) == 0)
        return 0;
    if (j->skipped) {
        j->skipped--;
        return 0;
    }
    j->taken++;
    return 1;
}

/* Takes the entries that replace native frame `frame`, from j->taken on, marks among them; returns their number. 0: the
 * native frame stays. `is_own`: see join_native_frame. */
static size_t take_entries(struct join *j, size_t frame, bool is_own, bool *ret_stays)
{
    *ret_stays = false;
    if (j->is_placed)
        return take_placed(j, frame, ret_stays);
    if (!j->is_counted)
        return take_run(j, frame);
    return is_own ? take_counted(j) : 0;
}

/* Whether a later native frame can be replaced. */
static bool has_places_left(const struct join *j)
{
    if (j->is_counted)
        return j->skipped != NO_MATCH && entries_left(j) > 0;
    if (j->is_placed)
        return entries_left(j) > 0;
    for (size_t i = j->taken; i < j->entry_count; i++)
        if (is_mark(&j->entries[i]) && j->entries[i].instruction)
            return true;
    return false;
}

/* ---- counted entries ---- */

/* Whether the first evaluator, at `first`, may have no frame yet, or no longer: it is the leaf, or calls a function
 * that runs before or after its frame exists. */
static bool is_entering(const struct interpreter *interpreter, const struct frame *natives, size_t first)
{
    return first == 0 ||
           (first == 1 && interpreter->is_without_frame && interpreter->is_without_frame(natives[0].function));
}

/* Decides how counted entries match the evaluators among the native frames. Only the leaf evaluator of a thread can
 * lack a frame. If evaluators still outnumber frames, the oldest ones belong to a stack that was switched away from, or
 * to another interpreter; with several interpreters the frames cannot be attributed. */
static void fit_counted(struct join *j, const struct frame *natives, size_t count, bool is_whole)
{
    const bool all = is_whole && !j->cut;
    size_t evaluators = 0;
    bool leaf_is_entering = false;
    for (size_t i = 0; j->interpreter && i < count; i++)
        if (j->interpreter->is_evaluator(natives[i].function) && evaluators++ == 0)
            leaf_is_entering = is_entering(j->interpreter, natives, i);
    if (is_whole && evaluators < j->entry_count) /* some evaluators were not recognised by name */
        j->skipped = NO_MATCH;
    else if (all && evaluators == j->entry_count + 1 && leaf_is_entering)
        j->skipped = 1;
    else if (j->is_several && (!all || evaluators != j->entry_count))
        j->skipped = NO_MATCH;
}

/* ---- frames ---- */

/* Names an entry that is not a mark. False: it has no name. */
static bool name_entry(const struct join *j, const struct interpreter_entry *entry, struct frame *ret)
{
    struct interpreted_name name;
    *ret = frame_of_text(j->interpreter ? j->interpreter->frame_kind : FRAME_INTERPRETED, "");
    if (interpreters_find(j->interpreters, j->kind, j->pid, entry, &name) < 0) {
        ret->mapping = j->interpreter ? j->interpreter->mapping : "[interpreter]";
        ret->address = entry->code;
        return false;
    }
    ret->function = name.function;
    ret->file = name.file;
    ret->line = name.line;
    ret->is_first_line = name.is_first_line;
    return true;
}

/* Adds the frames of the entries [first, end), without marks. */
static void add_entries(struct join *j, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        if (!is_mark(&j->entries[i]))
            j->is_whole &= name_entry(j, &j->entries[i], &j->ret[j->count++]);
}

/* Whether the native function is a helper (is_part) of the sample's interpreter. */
static bool is_part(const struct join *j, const char *function)
{
    return j->interpreter && j->interpreter->is_part && j->interpreter->is_part(function);
}

/* Whether the stack is complete although this evaluator has no interpreter frames. It is not if the BPF side did not
 * know the process yet, cannot read its interpreter, has walked another interpreter, or took another thread's idle
 * state for this one's. Exception: a leaf evaluator may be about to create its first frame. */
static bool may_lack_entries(const struct join *j, size_t frame, bool is_own)
{
    return j->was_walked && is_own && ((j->entry_count > 0 && !j->is_several && !j->is_placed) || frame == 0);
}

/* Whether the next run was walked incompletely: its frames replace this evaluator, and the native stack ends there. */
static bool is_cut_run_next(const struct join *j)
{
    return j->cut && j->entry_count && (entries_left(j) > 0) != j->is_counted && !has_places_left(j);
}

/* Whether the function that the helper `frame` (is_part) belongs to is in the stack: as the next frame, or already. */
static bool has_function_of_part(const struct join *j, size_t frame)
{
    return j->is_placed ? is_placed_next(j, frame + 1) : j->taken > 0;
}

/* Adds native frame `frame`, or the interpreter frames that replace it. */
static void join_native_frame(struct join *j, const struct frame *native, size_t frame)
{
    const int evaluates = interpreters_evaluator(j->interpreters, native->function);
    const bool is_own = evaluates == (int)j->kind; /* of the interpreter whose frames the record has */
    const size_t first = j->taken;
    bool stays;
    if (take_entries(j, frame, is_own, &stays)) {
        if (stays && !is_part(j, native->function))
            j->ret[j->count++] = *native;
        add_entries(j, first, j->taken);
        return;
    }
    if (has_function_of_part(j, frame) && is_part(j, native->function))
        return;
    if (evaluates >= 0)
        j->is_whole &= may_lack_entries(j, frame, is_own);
    j->is_ended = is_own && is_cut_run_next(j);
    if (!j->is_ended)
        j->ret[j->count++] = *native;
}

size_t interpreter_join(struct interpreters *interpreters, const struct stack_record *record,
                        const struct native_stack *native, struct frame *ret, bool *ret_is_whole)
{
    struct interpreter_entry entries[INTERPRETER_MAX_ENTRIES];
    struct join j = {.interpreters = interpreters, .entries = entries, .ret = ret};
    read_entries(&j, record);
    j.interpreter = interpreters_get(interpreters, j.kind);
    j.is_whole = !j.cut;
    resolve_marks(&j, native->spans);
    if (j.is_several && !j.is_counted)
        order_runs(&j);
    if (j.is_counted)
        fit_counted(&j, native->frames, native->count, !native->cut);

    for (size_t i = 0; i < native->count && !j.is_ended; i++)
        join_native_frame(&j, &native->frames[i], i);
    if (native->cut && !j.is_ended)
        ret[j.count++] = frame_of_text(FRAME_TRUNCATED, native->cut);
    j.is_whole &= j.is_ended || entries_left(&j) == 0;
    add_entries(&j, j.taken, j.entry_count);
    if (j.cut)
        ret[j.count++] = frame_of_text(FRAME_TRUNCATED, j.cut);
    *ret_is_whole = j.is_whole;
    return j.count;
}

void interpreter_resolve_marks(struct stack_record *record, const struct unwind_spans *spans)
{
    struct join j = {.entry_count = interpreter_entry_count(record)};
    if (j.entry_count == 0)
        return;
    const struct interpreter_tail *tail = stack_record_interpreter_tail(record);
    j.entries = (struct interpreter_entry *)tail - j.entry_count;
    j.is_several = tail->flags & INTERPRETER_TAIL_SEVERAL;
    if (!(tail->flags & (INTERPRETER_TAIL_COUNTED | INTERPRETER_TAIL_PLACED))) /* they have no marks */
        resolve_marks(&j, spans);
}
