/* One CPU sample, or waits that are alike, with names: what resolve hands to aggregate. Plain data, borrowed for the
 * length of the call. */
#pragma once

#include "model/frame.h"
#include "model/resource.h"
#include "model/trace_link.h"

#include <stddef.h>
#include <stdint.h>

/* What a program says of its own work, by a name of its own (labels of Go's goroutines). */
struct sample_label {
    const char *key, *value;
};

struct sample {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t weight_ns;
    uint64_t count;          /* of samples or waits that are alike; 0: it is one */
    const char *wait_reason; /* of waits: "disk", "run_queue"; NULL: it is a CPU sample */
    const struct resource *resource;
    uint32_t tid;
    uint32_t cpu;
    const char *thread_name;
    struct trace_link link;            /* the traced request that the thread worked for; zeros: none */
    const struct sample_label *labels; /* by their keys, each of which is there but once */
    size_t label_count;
    const struct frame *frames; /* leaf first */
    size_t frame_count;
};
