/* See interrupt_names.h. */
#include "sources/interrupt_names.h"

#include "base/buf.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define ACTIONS_BYTES 256 /* of all handlers that share a line */

const char *interrupt_static_name(uint32_t number)
{
    static const char *const softirqs[INTERRUPTS_SOFTIRQS] = {"HI",       "TIMER",   "NET_TX", "NET_RX",  "BLOCK",
                                                              "IRQ_POLL", "TASKLET", "SCHED",  "HRTIMER", "RCU"};
    static const char *const vectors[INTERRUPTS_VECTORS] = {
        [INTERRUPT_LOCAL_TIMER] = "local timer",
        [INTERRUPT_RESCHEDULE] = "reschedule",
        [INTERRUPT_CALL_FUNCTION] = "call function",
        [INTERRUPT_IRQ_WORK] = "IRQ work",
    };
    if (number < INTERRUPTS_SOFTIRQS)
        return softirqs[number];
    return number - INTERRUPT_FIRST_VECTOR < INTERRUPTS_VECTORS ? vectors[number - INTERRUPT_FIRST_VECTOR] : NULL;
}

const char *interrupt_vector_symbol(enum interrupt_vector vector)
{
    static const char *const symbols[INTERRUPTS_VECTORS] = {"LOC", "RES", "CAL", "IWI"};
    return symbols[vector];
}

const char *interrupt_name_read(uint32_t number, char out[INTERRUPT_NAME_BYTES])
{
    const char *name = interrupt_static_name(number);
    const uint32_t line = number - INTERRUPT_FIRST_LINE;
    _cleanup_buf_ struct buf actions = {0};
    char path[64];
    if (!name && number >= INTERRUPT_FIRST_LINE) {
        snprintf(path, sizeof(path), "/sys/kernel/irq/%u/actions", line);
        if (buf_read_file(&actions, path, ACTIONS_BYTES) >= 0 && actions.size)
            name = actions.data;
    }
    if (name)
        snprintf(out, INTERRUPT_NAME_BYTES, "%.*s", (int)strcspn(name, "\n"), name);
    if (!name || !out[0])
        snprintf(out, INTERRUPT_NAME_BYTES, "interrupt %u", line);
    return out;
}
