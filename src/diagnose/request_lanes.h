/* A critical path for reading: its segments folded into a few stretches, each mostly in one thread. Pure. */
#pragma once

#include "model/request.h"

#define REQUEST_LANES_MAX 16

struct request_lane {
    uint64_t start_ns; /* after the request's start */
    uint64_t duration_ns;
    uint32_t tid, pid;
    const char *thread, *process;
    uint64_t sums_ns[REQUEST_PART_COUNT];
    uint64_t held_ns;    /* of its segments of kind `lock`, whose thread is the holder */
    size_t first, count; /* its segments */
};

/* Fills `ret` with the lanes of the request's path, in order; they cover all its segments. A short lane (less than a
 * hundredth of the request, or the shortest if there are too many lanes) is added to the lane before it. Returns the
 * number of lanes. */
size_t request_lanes(const struct request *r, struct request_lane ret[REQUEST_LANES_MAX]);
