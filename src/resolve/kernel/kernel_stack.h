/* Classifies the frames of a kernel stack by their names: the probe's own frames, and whether the stack is complete.
 * Any thread. */
#pragma once

#include "model/frame.h"

#include <stdbool.h>
#include <stddef.h>

/* A stack captured at a tracepoint begins with the frames of the probe itself. Returns their number. Another BPF
 * program, which an interrupt hit, may follow below; it is not counted. */
size_t kernel_stack_probe_frames(const struct frame *frames, size_t count);

/* Whether the frame is a retpoline thunk, through which the kernel makes indirect calls. */
bool kernel_stack_is_retpoline(const struct frame *frame);

/* Why the stack is incomplete, as text for the user; NULL: it is complete. */
const char *kernel_stack_cut(const struct frame *frames, size_t count);
