/* One CPU sample with names: what resolve hands to aggregate. Plain data, borrowed for the length of the call. */
#pragma once

#include "model/frame.h"
#include "model/resource.h"

#include <stddef.h>
#include <stdint.h>

struct sample {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t weight_ns;
    const struct resource *resource;
    uint32_t tid;
    uint32_t cpu;
    const char *thread_name;
    const struct frame *frames; /* leaf first */
    size_t frame_count;
};
