/* One sample, or several equal ones, with names: passed from resolve to aggregate. Plain data, borrowed for the
 * duration of the call. */
#pragma once

#include "model/frame.h"
#include "model/resource.h"
#include "model/sample_type.h"
#include "model/trace_link.h"

#include <stddef.h>
#include <stdint.h>

/* A label that the program itself sets on its work (labels of Go's goroutines). */
struct sample_label {
    const char *key, *value;
};

struct sample {
    const struct sample_type *type; /* outlives the windows and exports that the sample is added to */
    uint64_t value;                 /* in the type's unit; of all equal samples together */
    uint64_t count;                 /* number of equal samples or waits; 0: one */
    uint64_t time_ns;               /* CLOCK_MONOTONIC */
    const char *wait_reason;        /* of sample_type_off_cpu: "disk", "run_queue"; NULL for other types */
    const struct resource *resource;
    uint32_t tid;
    uint32_t cpu;
    const char *thread_name;
    struct trace_link link;            /* the traced request that the thread worked for; zeros: none */
    const struct sample_label *labels; /* sorted by key; keys are unique */
    size_t label_count;
    const struct frame *frames; /* leaf first */
    size_t frame_count;
};
