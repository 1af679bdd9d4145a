/* Off-CPU time: the source of signal "off_cpu", its options and totals. Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

extern const struct source source_off_cpu;

/* Filled from the settings (signals/offcpu/offcpu.c). */
struct off_cpu_options {
    bool enabled;
    uint64_t min_wait_ns;    /* shorter waits are counted but not recorded */
    uint64_t sample_wait_ns; /* shorter waits are recorded at random and weighted by this value; below 2^32; 0: record
                                all */
    bool wakers;             /* record which thread woke the sleeper */
};

struct off_cpu_totals {
    uint64_t recorded, recorded_ns;
    uint64_t short_count, short_ns; /* shorter than off_cpu_options.min_wait_ns */
    uint64_t left_out, left_out_ns; /* by random sampling; the recorded waits are weighted for these */
    uint64_t lost, lost_ns;         /* ring full */
    uint64_t unknown;               /* thread table full: their length is unknown */
};

/* Totals since open. */
struct off_cpu_totals off_cpu_source_stats(void *off_cpu_source);
