/* What the value of a sample measures, and its unit: the ValueType of pprof and OTLP. Samples, profiles and windows
 * have one type each. Plain data. */
#pragma once

#include <stdbool.h>

struct sample_type {
    const char *name;   /* "cpu", "off_cpu"; of an event its name: "page-faults", "sched:sched_switch" */
    const char *unit;   /* of the value: "nanoseconds", "count", "bytes" */
    const char *counts; /* what the count of a sample counts: "samples", "waits"; "events" for a mixture */
    bool is_interval;   /* a value is the length of an interval that ended at the sample's time, or the sum of several.
                           Otherwise a sample is taken at one moment */
};

/* The time that threads ran on a CPU, and that they did not. There are no copies: compare addresses. */
extern const struct sample_type sample_type_cpu, sample_type_off_cpu;
/* The type of profiles that are the sum of both. No sample has it. */
extern const struct sample_type sample_type_wall;
/* The time in which work ran on a GPU (`sonde record --gpu`). */
extern const struct sample_type sample_type_gpu;

/* The type of samples of an event; borrows both texts. */
static inline struct sample_type sample_type_of_event(const char *name, const char *unit)
{
    return (struct sample_type){.name = name, .unit = unit, .counts = "samples"};
}

/* Finds the type of an agent's windows (the first three above) by its name; NULL: unknown name. */
const struct sample_type *sample_type_find(const char *name);

/* Whether both have the same name and unit. */
bool sample_type_equal(const struct sample_type *a, const struct sample_type *b);

/* Whether values are nanoseconds. */
bool sample_type_is_time(const struct sample_type *t);
