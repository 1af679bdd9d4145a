/* How the walk of a stack ended, in words and as a loss. */
#pragma once

struct losses;

/* `end`: enum unwind_end, of any version of the kernel half. NULL when the stack is whole; else it is counted. */
const char *stack_end_count(unsigned end, struct losses *losses);

/* `end`: enum python_end. Why the interpreter's frames end before its first one; NULL: they do not. */
const char *stack_end_interpreted(unsigned end);
