/* Joins the native frames of a user stack with its interpreter frames (interpreted.h). Pipeline thread only. */
#pragma once

#include "model/frame.h"
#include "resolve/interpreter/interpreted.h"

#include <stdbool.h>
#include <stddef.h>

struct interpreters;

/* Fills `ret` with the user stack, leaf first: the `count` named frames of `natives`, with interpreter frames in place
 * of the native ones that run them. Returns the number of frames, at most count + x->count + 2.
 *
 * `natives` may be the end of the same array: ret + x->count. `cut`: why the native stack is incomplete; a frame with
 * this text follows it; NULL: it is complete. Interpreter frames without a native frame follow where the native stack
 * ends. `*ret_is_whole`: the interpreter frames are complete, placed and named. `x` is used up. Names of interpreter
 * frames are valid as those of interpreters_find. */
size_t interpreter_join(struct interpreters *interpreters, struct interpreted *x, const struct frame *natives,
                        size_t count, const char *cut, struct frame *ret, bool *ret_is_whole);
