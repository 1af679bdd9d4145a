/* Tasks in uninterruptible sleep: the source of signal "blocked", and its options. Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

extern const struct source source_blocked;

/* Filled from the settings (signals/blocked/blocked.c). */
struct blocked_options {
    bool enabled;
    uint64_t threshold_ns; /* a task that is blocked for longer is an event */
};

#define BLOCKED_INTERVAL_NS 5000000000ull /* between two walks, at least */
