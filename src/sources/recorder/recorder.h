/* The flight recorder's own programs: the source of signal "recorder", and its options. They write to the rings of the
 * shared tables (tables/flight_recorder.h), which the signals read. Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

extern const struct source source_recorder;

/* Filled from the settings (signals/recorder/recorder.c). */
struct recorder_options {
    bool enabled;
    uint64_t memory_bytes; /* of the rings, all CPUs together; for the pipeline, which creates them with the shared
                              tables */
};
