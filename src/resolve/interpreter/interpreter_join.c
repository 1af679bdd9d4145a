/* Joins interpreter frames with native frames; see interpreter_join.h. Entries say in one of three ways where they
 * belong (struct interpreted):
 * - marks: a run of entries ends with a mark, which has the native frame that executes the run;
 * - placed (V8, HotSpot): each entry has its native frame, and no marks are left;
 * - counted: each entry has one evaluator. They are matched in order, from the leaf, with the evaluators among the
 * native frames, which are recognised by name. */
#include "resolve/interpreter/interpreter_join.h"

#include "resolve/interpreter/interpreters.h"

#include <stdlib.h>
#include <string.h>

/* Counted entries do not match the evaluators. */
#define NO_MATCH SIZE_MAX

struct join {
    struct interpreters *interpreters;
    const struct interpreter *interpreter; /* whose frames the record has; NULL: unknown */
    struct interpreted *x;
    const char *cut;   /* why the interpreter frames are incomplete; NULL: they are complete */
    size_t taken;      /* entries before this index are in `ret` */
    size_t skipped;    /* counted entries: leaf evaluators without a frame, or NO_MATCH */
    struct frame *ret; /* leaf first */
    size_t count;      /* of `ret` */
    bool is_whole;     /* so far, the interpreter frames are complete, placed and named */
    bool is_ended;     /* frames of an incompletely walked run replace the last evaluator: no native frame follows */
};

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
static void order_runs(struct interpreted *x)
{
    struct run runs[INTERPRETER_MAX_ENTRIES];
    struct interpreter_entry ordered[INTERPRETER_MAX_ENTRIES];
    size_t run_count = 0, count = 0;
    if (!x->is_several || x->is_counted)
        return;
    for (size_t i = 0, first = 0; i < x->count; i++) {
        if (!interpreter_entry_is_mark(&x->entries[i]))
            continue;
        if (x->entries[i].instruction)
            runs[run_count++] = (struct run){first, i + 1 - first, x->entries[i].instruction};
        first = i + 1;
    }
    qsort(runs, run_count, sizeof(*runs), compare_runs);
    for (size_t i = 0; i < run_count; count += runs[i++].count)
        memcpy(ordered + count, x->entries + runs[i].first, runs[i].count * sizeof(*ordered));
    memcpy(x->entries, ordered, count * sizeof(*ordered));
    x->count = count;
}

/* ---- the entries that replace a native frame ---- */

static size_t entries_left(const struct join *j)
{
    return j->x->count - j->taken;
}

/* Entries with marks. Native frames must be passed in order. Returns 0 for a run without frames. */
static size_t take_run(struct join *j, size_t frame)
{
    const struct interpreter_entry *entries = j->x->entries;
    const size_t first = j->taken;
    for (size_t i = first; i < j->x->count; i++) {
        if (!interpreter_entry_is_mark(&entries[i]))
            continue;
        if (entries[i].instruction > frame + 1)
            break;
        if (entries[i].instruction == frame + 1)
            j->taken = i + 1;
    }
    for (size_t i = first; i < j->taken; i++)
        if (!interpreter_entry_is_mark(&entries[i]))
            return j->taken - first;
    return 0;
}

/* Whether the next entry is placed at native frame `frame`. */
static bool is_placed_next(const struct join *j, size_t frame)
{
    return j->x->is_placed && entries_left(j) > 0 &&
           (j->x->entries[j->taken].instruction & INTERPRETER_ENTRY_FRAME) == frame + 1;
}

/* Entries must be in the order of their frames. Others, which only a forged recording has, stay behind. `*ret_stays`:
 * the native frame stays as well, above the entries, which called it. */
static size_t take_placed(struct join *j, size_t frame, bool *ret_stays)
{
    const size_t first = j->taken;
    if (!is_placed_next(j, frame))
        return 0;
    *ret_stays = j->x->entries[first].instruction & INTERPRETER_ENTRY_CALLER;
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
    if (j->x->is_placed)
        return take_placed(j, frame, ret_stays);
    if (!j->x->is_counted)
        return take_run(j, frame);
    return is_own ? take_counted(j) : 0;
}

/* Whether a later native frame can be replaced. */
static bool has_places_left(const struct join *j)
{
    const struct interpreted *x = j->x;
    if (x->is_counted)
        return j->skipped != NO_MATCH && entries_left(j) > 0;
    if (x->is_placed)
        return entries_left(j) > 0;
    for (size_t i = j->taken; i < x->count; i++)
        if (interpreter_entry_is_mark(&x->entries[i]) && x->entries[i].instruction)
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
    const struct interpreted *x = j->x;
    const bool all = is_whole && x->end == INTERPRETER_END_WHOLE;
    size_t evaluators = 0;
    bool leaf_is_entering = false;
    for (size_t i = 0; j->interpreter && i < count; i++)
        if (j->interpreter->is_evaluator(natives[i].function) && evaluators++ == 0)
            leaf_is_entering = is_entering(j->interpreter, natives, i);
    if (is_whole && evaluators < x->count) /* some evaluators were not recognised by name */
        j->skipped = NO_MATCH;
    else if (all && evaluators == x->count + 1 && leaf_is_entering)
        j->skipped = 1;
    else if (x->is_several && (!all || evaluators != x->count))
        j->skipped = NO_MATCH;
}

/* ---- frames ---- */

/* Names an entry that is not a mark. False: it has no name. */
static bool name_entry(const struct join *j, const struct interpreter_entry *entry, struct frame *ret)
{
    struct interpreted_name name;
    *ret = (struct frame){.kind = j->interpreter ? j->interpreter->frame_kind : FRAME_INTERPRETED,
                          .function = "",
                          .system_name = "",
                          .file = "",
                          .mapping = j->interpreter ? j->interpreter->mapping : "[interpreter]",
                          .build_id = ""};
    if (interpreters_find(j->interpreters, j->x->kind, j->x->pid, entry, &name) < 0) {
        ret->address = entry->code;
        return false;
    }
    ret->mapping = "";
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
        if (!interpreter_entry_is_mark(&j->x->entries[i]))
            j->is_whole &= name_entry(j, &j->x->entries[i], &j->ret[j->count++]);
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
    const struct interpreted *x = j->x;
    return x->was_walked && is_own && ((x->count > 0 && !x->is_several && !x->is_placed) || frame == 0);
}

/* Whether the next run was walked incompletely: its frames replace this evaluator, and the native stack ends there. */
static bool is_cut_run_next(const struct join *j)
{
    return j->cut && j->x->count && (entries_left(j) > 0) != j->x->is_counted && !has_places_left(j);
}

/* Whether the frame of the function that native frame `frame` helps is in the stack: next, or already. */
static bool has_frame_of_part(const struct join *j, size_t frame)
{
    return j->x->is_placed ? is_placed_next(j, frame + 1) : j->taken > 0;
}

/* Adds native frame `frame`, or the interpreter frames that replace it. */
static void join_native_frame(struct join *j, const struct frame *native, size_t frame)
{
    const int evaluates = interpreters_evaluator(j->interpreters, native->function);
    const bool is_own = evaluates == (int)j->x->kind; /* of the interpreter whose frames the record has */
    const size_t first = j->taken;
    bool stays;
    if (take_entries(j, frame, is_own, &stays)) {
        if (stays && !is_part(j, native->function))
            j->ret[j->count++] = *native;
        add_entries(j, first, j->taken);
        return;
    }
    if (has_frame_of_part(j, frame) && is_part(j, native->function))
        return;
    if (evaluates >= 0)
        j->is_whole &= may_lack_entries(j, frame, is_own);
    j->is_ended = is_own && is_cut_run_next(j);
    if (!j->is_ended)
        j->ret[j->count++] = *native;
}

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

size_t interpreter_join(struct interpreters *interpreters, struct interpreted *x, const struct frame *natives,
                        size_t count, const char *cut, struct frame *ret, bool *ret_is_whole)
{
    struct join j = {
        .interpreters = interpreters,
        .interpreter = interpreters_get(interpreters, x->kind),
        .x = x,
        .cut = find_cut(x->end),
        .ret = ret,
    };
    j.is_whole = !j.cut;
    order_runs(x);
    if (x->is_counted)
        fit_counted(&j, natives, count, !cut);
    for (size_t i = 0; i < count && !j.is_ended; i++)
        join_native_frame(&j, &natives[i], i);
    if (cut && !j.is_ended)
        ret[j.count++] = frame_of_text(FRAME_TRUNCATED, cut);
    j.is_whole &= j.is_ended || entries_left(&j) == 0;
    add_entries(&j, j.taken, x->count);
    if (j.cut)
        ret[j.count++] = frame_of_text(FRAME_TRUNCATED, j.cut);
    *ret_is_whole = j.is_whole;
    return j.count;
}
