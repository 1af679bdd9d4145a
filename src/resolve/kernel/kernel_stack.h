/* What belongs to the kernel's part of a stack, and whether it is whole: by the names of its frames. Any thread. */
#pragma once

#include "model/frame.h"

#include <stdbool.h>
#include <stddef.h>

/* A stack that was taken at a tracepoint begins with what led from there to its taking: so many of its frames. Another
 * program may lie below it, which an interrupt came upon. */
size_t kernel_stack_probe_frames(const struct frame *frames, size_t count);

/* Whether it is in what the kernel calls a function through whose address it got. */
bool kernel_stack_is_retpoline(const struct frame *frame);

/* Why there are no more than these, in words; NULL: there are. */
const char *kernel_stack_cut(const struct frame *frames, size_t count);
