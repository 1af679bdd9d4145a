/* Stacks of waits as people read them: in a few words for the detail of a part, and whole, one frame a line.
 * Names come from files that somebody else made: what does not print is replaced, what is too long is cut. */
#pragma once

#include "base/buf.h"
#include "model/frame.h"

/* Appends " in nanosleep < sleep_ms < handle_request": the program's functions that led to the wait, leaf
 * first, from the one on that called the C library. Nothing when none has been named; `syscall` is not
 * repeated. */
void stack_text_append_user(const struct frame *frames, size_t count, const char *syscall, char *out, size_t size);

/* Appends all frames, one a line (struct request_part). */
void stack_text_put(struct buf *out, const struct frame *frames, size_t count);
