/* Texts of the truncation frame at the end of an incomplete stack; see stack_ends.h. */
#include "resolve/sample/stack_ends.h"

#include "model/loss.h"

#include <linux/types.h>

#include "probes/unwind/stack.h"

#include <stddef.h>

/* The reason as text; NULL: the stack is complete. */
static const char *end_text(unsigned end)
{
    static const char *const texts[UNWIND_END_COUNT] = {
        [UNWIND_END_NO_PROCESS] = "mappings not known yet",
        [UNWIND_END_NO_TABLE] = "unwind table not ready",
        [UNWIND_END_NO_MAPPING] = "address outside all code",
        [UNWIND_END_BAD_READ] = "stack not readable",
        [UNWIND_END_NO_CFI] = "no unwinding rules",
        [UNWIND_END_TOO_DEEP] = "stack too deep",
        [UNWIND_END_UNSUPPORTED] = "unwinding rule not supported",
        [UNWIND_END_NOT_RUNNING] = "waiting since before the recording",
    };
    if (end == UNWIND_END_ENTRY || end == UNWIND_END_NO_USER)
        return NULL;
    return end < UNWIND_END_COUNT && texts[end] ? texts[end] : "";
}

const char *stack_end_count(unsigned end, struct losses *losses)
{
    const char *reason = end_text(end);
    if (reason)
        losses->count[end == UNWIND_END_NO_PROCESS || end == UNWIND_END_NO_TABLE ? LOSS_NO_UNWIND_TABLE
                                                                                 : LOSS_TRUNCATED]++;
    return reason;
}

const char *stack_end_interpreted(unsigned end)
{
    static const char *const texts[INTERPRETER_END_COUNT] = {
        [INTERPRETER_END_TOO_DEEP] = "interpreter's stack too deep",
        [INTERPRETER_END_BAD_READ] = "interpreter's stack not readable",
        [INTERPRETER_END_TORN] = "interpreter's stack changed while it was read",
        [INTERPRETER_END_SEVERAL] = "several interpreters in one thread",
    };
    if (end == INTERPRETER_END_WHOLE)
        return NULL;
    return end < INTERPRETER_END_COUNT && texts[end] ? texts[end] : "";
}
