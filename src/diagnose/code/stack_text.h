/* Stacks of waits as text: a summary for the detail of a component, and the complete stack, one frame per line. Names
 * come from untrusted files: unprintable bytes are replaced, long names truncated. */
#pragma once

#include "base/buf.h"
#include "model/frame.h"

/* Appends " in handle_request() app.py:12, calling nanosleep < sleep_ms": the innermost function of the user's own code
 * with its line, and the functions that it called, leaf first, starting with the function that called the C library. If
 * no line is known, appends the functions that led to the wait: " in nanosleep < sleep_ms < handle_request". For
 * interpreted and JIT-compiled code, leaves out the interpreter's own functions between them. Appends nothing if no
 * function has a name. */
void stack_text_append_user(const struct frame *frames, size_t count, char *out, size_t size);

/* Appends `where`, a text of stack_text_append_user, without its " in ", and without the function that is the system
 * call which `detail` begins with: of a wait in clock_nanosleep, "handle_request() app.py:12". */
void stack_text_put_caller(struct buf *out, const char *where, const char *detail);

/* Appends ": futex_wait_queue < do_futex": the kernel's functions that led to the wait, without the scheduler's and
 * those that enter the kernel. */
void stack_text_append_kernel(const struct frame *frames, size_t count, char *out, size_t size);

/* Appends all frames, one per line (struct request_part). */
void stack_text_put(struct buf *out, const struct frame *frames, size_t count);
