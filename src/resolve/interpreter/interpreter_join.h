/* Joins the native frames of a user stack with the interpreter frames of its record. Pipeline thread only. */
#pragma once

#include "model/frame.h"

#include <linux/types.h>

#include "probes/unwind/stack.h"

#include <stdbool.h>
#include <stddef.h>

struct interpreters;
struct unwind_spans;

/* The native frames of a user stack. Borrowed. */
struct native_stack {
    const struct frame *frames; /* named, leaf first */
    size_t count;
    const char *cut;                  /* why the stack is incomplete; NULL: it is complete */
    const struct unwind_spans *spans; /* of the frames that user space walked */
};

/* The number of interpreter entries of a valid record. */
static inline size_t interpreter_entry_count(const struct stack_record *record)
{
    return record->flags & STACK_RECORD_INTERPRETED ? stack_record_interpreter_tail(record)->entries : 0;
}

/* Fills `ret` with the user stack of a valid record, leaf first: the frames of `native`, with interpreter frames in
 * place of the native ones that run them. A truncation frame with the reason follows native frames that are incomplete.
 * Then come the interpreter frames without a native frame, and a truncation frame if interpreter frames are incomplete.
 * Returns the number of frames: at most native->count + interpreter_entry_count() + 2.
 *
 * native->frames may be in the same array, at ret + interpreter_entry_count() or later. `*ret_is_whole`: the
 * interpreter frames are complete, placed and named. Their names are valid as those of interpreters_find. */
size_t interpreter_join(struct interpreters *interpreters, const struct stack_record *record,
                        const struct native_stack *native, struct frame *ret, bool *ret_is_whole);

/* Writes into a valid record where its entries belong among the frames of `spans`. Then these are no longer needed to
 * join them. */
void interpreter_resolve_marks(struct stack_record *record, const struct unwind_spans *spans);
