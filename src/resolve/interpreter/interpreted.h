/* The interpreter's frames of one sample (struct python_entry, probes/python.h) and where they belong in its native
 * stack: each run of them in the place of the native frame that runs it. That one is told by the kernel half's walk,
 * or, where the walk is finished from a copied stack, found here in the same way: the run's mark lies in its part of
 * the stack. Frames that have no marks (PYTHON_COUNTED) have an evaluator each, and go with the evaluators among the
 * native frames, known by name, from the leaf on. */
#pragma once

#include <linux/types.h>

#include "probes/cpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interpreted {
    size_t count;
    unsigned kind;      /* enum interpreter_kind: whose they are */
    unsigned end;       /* enum python_end */
    size_t next_mark;   /* while the native stack is walked: marks before it are done with */
    size_t taken;       /* while stacks are joined: entries before it are in their places */
    bool is_counted;    /* without marks */
    bool is_placed;     /* without marks: each entry has its native frame */
    bool is_several;    /* of several interpreters, see interpreted_settle */
    size_t passed_over; /* of counted ones: so many evaluators, from the leaf on, have no frame yet, or none any more */
    struct python_entry entries[PYTHON_MAX_ENTRIES];
};

/* Of a sound record; empty when it has none. */
void interpreted_read(struct interpreted *x, const struct cpu_sample *record);

/* The native frame number `frame` has the stack [low, high). Frames come in order, leaf first. */
void interpreted_pass(struct interpreted *x, size_t frame, uint64_t low, uint64_t high);

/* After the native stack was walked, before frames are taken: of several interpreters, leaves those runs that its
 * frames run, in their order. The others are another thread's, or nobody knows. */
void interpreted_settle(struct interpreted *x);

/* What belongs in the place of native frame `frame`: entries[*ret_first ..), how many; marks among them are to be left
 * out. 0: nothing, the native frame stays. Called for one native frame after the other. */
size_t interpreted_take(struct interpreted *x, size_t frame, size_t *ret_first);

/* The same for placed ones (PYTHON_PLACED): 0 or 1. `ret_stays`: the native frame stays, too, beneath which it is
 * called from. */
size_t interpreted_take_placed(struct interpreted *x, size_t frame, size_t *ret_first, bool *ret_stays);

/* Whether the next entry of placed ones is that of this native frame. */
bool interpreted_is_next(const struct interpreted *x, size_t frame);

/* Whether entries that are not placed have been put in the place of native frames. */
bool interpreted_is_joined(const struct interpreted *x);

/* What there is to know of the native stack to join frames that are counted. */
struct interpreted_evaluators {
    size_t count;
    bool is_whole;         /* the native stack is: there are no more of them */
    bool leaf_is_entering; /* the first one is the leaf, or has called what it calls when it has no frame */
};

/* Whether and how counted frames go with these evaluators; where they do not, none is taken. */
void interpreted_fit(struct interpreted *x, const struct interpreted_evaluators *evaluators);

/* interpreted_take for counted frames, called for one evaluator after the other. */
size_t interpreted_take_counted(struct interpreted *x, size_t *ret_first);

/* What no native frame has been found for. */
static inline size_t interpreted_left(const struct interpreted *x)
{
    return x->count - x->taken;
}
/* Whether there is more for interpreted_take to give. */
bool interpreted_places_left(const struct interpreted *x);
