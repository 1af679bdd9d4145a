/* One CPU sample, or several equal waits, with names: passed from resolve to aggregate. Plain data, borrowed for the
 * duration of the call. */
#pragma once

#include "model/frame.h"
#include "model/resource.h"
#include "model/trace_link.h"

#include <stddef.h>
#include <stdint.h>

/* A label that the program itself sets on its work (labels of Go's goroutines). */
struct sample_label {
    const char *key, *value;
};

struct sample {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t weight_ns;
    uint64_t count;          /* number of equal samples or waits; 0: one */
    const char *wait_reason; /* for waits: "disk", "run_queue"; NULL: a CPU sample */
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
