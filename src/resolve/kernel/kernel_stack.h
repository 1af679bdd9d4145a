/* The kernel part of a recorded stack: names its frames, removes those of the probe itself, and finds out whether the
 * stack is complete. Pipeline thread only. */
#pragma once

#include "model/frame.h"

#include <linux/types.h>

#include "probes/unwind/stack.h"

#include <stdbool.h>
#include <stddef.h>

struct kernel_symbols;

/* Fills `ret`, leaf first, and returns the number of frames: at most record->kernel_frames, and a truncation frame with
 * the reason if the stack is incomplete (`*ret_is_whole` is false). Their strings are valid as those of
 * kernel_symbols_find. `k` may be NULL: frames have no names. */
size_t kernel_stack_name(struct kernel_symbols *k, const struct stack_record *record, struct frame *ret,
                         bool *ret_is_whole);

/* Whether the thread of these frames executes another program (execve). */
bool kernel_stack_is_in_exec(const struct frame *frames, size_t count);
