/* CPython's frames of a thread that sleeps: user space walks them by the same code as the BPF programs walk those of a
 * running one (probes/interpreter/python_walk.h). Pipeline thread only. */
#pragma once

#include "resolve/interpreter/interpreter.h"

#include <linux/types.h>

#include "probes/unwind/stack.h"

/* As walk_sleeping of struct interpreter. `take` gets a struct python_code for the code object of each frame. -ENOMEM.
 */
int python_sleeping_append(const struct python_layout *layout, const struct sleeping_thread *thread,
                           int (*take)(void *context, const struct record_header *code), void *context,
                           struct stack_record *record);
