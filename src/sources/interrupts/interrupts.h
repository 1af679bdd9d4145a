/* Interrupts and softirqs: the source of signal "interrupts", and its options. Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

extern const struct source source_interrupts;

/* Filled from the settings (signals/interrupts/interrupts.c). */
struct interrupts_options {
    bool enabled;
    uint64_t threshold_ns; /* an interrupt or softirq that runs for longer has a record */
};
