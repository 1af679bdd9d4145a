/* The flight recorder's own programs: the source of signal "recorder", and its options. They write to the rings of the
 * shared tables (tables/flight_recorder.h), which the signals read. Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

extern const struct source source_recorder;

/* Filled from the settings (signals/recorder/recorder.c), without `is_detailed`. NULL: the defaults. */
struct recorder_options {
    bool enabled;
    bool is_detailed;      /* also the files of reads whose sleep is an ordinary one, as of FUSE (a switch of a thread
                              that sleeps in a read, of a pipe too, then takes twice as long), and the system calls that
                              packets interrupted when they woke a thread */
    uint64_t memory_bytes; /* of the rings, all CPUs together; for the pipeline, which creates them with the shared
                              tables */
};
