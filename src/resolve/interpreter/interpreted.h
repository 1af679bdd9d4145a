/* The interpreter frames of one sample (struct interpreter_entry), and where they belong in its native
 * stack. A run of frames replaces the native frame that executes it. The BPF side's walk identifies that native frame;
 * when the walk is completed from a copied stack, it is identified here in the same way: the run's mark is an address
 * within that frame's part of the stack. Frames without marks (INTERPRETER_TAIL_COUNTED) have one evaluator each; they
 * are matched in order, from the leaf, with the evaluators among the native frames, which are recognised by name. */
#pragma once

#include <linux/types.h>

#include "probes/unwind/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interpreted {
    size_t count;
    unsigned kind;    /* enum interpreter_kind */
    unsigned end;     /* enum interpreter_end */
    size_t next_mark; /* during the native walk: marks before this index are resolved */
    size_t taken;     /* while stacks are joined: entries before this index are placed */
    bool is_counted;  /* INTERPRETER_TAIL_COUNTED: no marks */
    bool is_placed;   /* INTERPRETER_TAIL_PLACED: no marks, each entry has its native frame */
    bool is_several;  /* INTERPRETER_TAIL_SEVERAL: runs of several interpreters, see interpreted_settle */
    size_t skipped;   /* INTERPRETER_TAIL_COUNTED: leaf evaluators without a frame; SIZE_MAX: no match */
    struct interpreter_entry entries[INTERPRETER_MAX_ENTRIES];
};

/* Copies the entries of a valid record; empty if it has none. */
void interpreted_read(struct interpreted *x, const struct stack_record *record);

/* Resolves marks within native frame `frame`, which occupies [low, high) of the stack. Call in order, leaf first. */
void interpreted_pass(struct interpreted *x, size_t frame, uint64_t low, uint64_t high);

/* Call after the native walk and before interpreted_take. With several interpreters, keeps the runs whose native frames
 * were found, in stack order. The other runs belong to another thread or cannot be attributed. */
void interpreted_settle(struct interpreted *x);

/* The entries that replace native frame `frame`: returns their number, the first is entries[*ret_first]; skip marks
 * among them. 0: the native frame stays. Call in order for every native frame. */
size_t interpreted_take(struct interpreted *x, size_t frame, size_t *ret_first);

/* interpreted_take for INTERPRETER_TAIL_PLACED. `*ret_stays`: the native frame stays as well, above the entries, which
 * called it. */
size_t interpreted_take_placed(struct interpreted *x, size_t frame, size_t *ret_first, bool *ret_stays);

/* With INTERPRETER_TAIL_PLACED: whether the next entry belongs to this native frame. */
bool interpreted_is_next(const struct interpreted *x, size_t frame);

/* Without INTERPRETER_TAIL_PLACED: whether entries have already replaced native frames. */
bool interpreted_is_joined(const struct interpreted *x);

/* The evaluators among the native frames, for matching counted frames. */
struct interpreted_evaluators {
    size_t count;
    bool is_whole;         /* the native stack is complete, so there are no further evaluators */
    bool leaf_is_entering; /* the first evaluator is the leaf, or calls a function that runs before or after its frame
                              exists */
};

/* Decides how counted frames match these evaluators. If they do not match, no frame is taken. */
void interpreted_fit(struct interpreted *x, const struct interpreted_evaluators *evaluators);

/* interpreted_take for counted frames; call in order for every evaluator. */
size_t interpreted_take_counted(struct interpreted *x, size_t *ret_first);

/* Number of entries without a native frame so far. */
static inline size_t interpreted_left(const struct interpreted *x)
{
    return x->count - x->taken;
}
/* Whether a later call of interpreted_take can return entries. */
bool interpreted_places_left(const struct interpreted *x);
