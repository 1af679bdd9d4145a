/* Run-queue latency: the source of signal "runqueue", and its options. Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

extern const struct source source_runqueue;

/* Filled from the settings (signals/runqueue/runqueue.c). */
struct runqueue_options {
    bool enabled;
    uint64_t threshold_ns; /* longer waits have a record each */
};
