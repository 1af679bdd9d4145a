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

/* Takes out how long the threads of Python programs have waited for the GIL since the last call, for each process that
 * waited. `recorder_source`: the state of an opened source. `take` is called with `context`. */
void recorder_source_take_gil_waits(void *recorder_source, void (*take)(void *context, uint32_t pid, uint64_t ns),
                                    void *context);
