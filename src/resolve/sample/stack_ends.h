/* Reports how the walk of a stack ended: as text for the truncation frame, and as a loss counter. */
#pragma once

struct losses;

/* `end`: enum unwind_end, possibly of a newer version. Returns why the stack is incomplete, and counts it in `losses`;
 * NULL: it is complete. */
const char *stack_end_count(unsigned end, struct losses *losses);

/* `end`: enum interpreter_end. Returns why the interpreter's frames are incomplete; NULL: they are complete. */
const char *stack_end_interpreted(unsigned end);
