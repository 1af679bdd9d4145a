/* Reads the flight recorder's rings in memory, which BPF programs may be writing at the same time. */
#pragma once

#include "model/flight_window.h"

#include <stddef.h>
#include <stdint.h>

#include <linux/types.h>

/* One ring: record number n is at n & (size - 1). */
struct recorder_ring {
    const struct recorder_record *records;
    const __u64 *count; /* of records written so far, including those that are being written */
    uint32_t size;      /* a power of two */
    uint64_t slack_ns;  /* a record may come this much after a later one; 0: times ascend */
};

/* From when on the ring has all its records, if it was written since `since_ns`. */
uint64_t recorder_ring_complete_from(const struct recorder_ring *ring, uint64_t since_ns);

/* See flight_recorder_window. `*ret_horizon_ns` is complete_from_ns as far as the rings, and not `max_records`, decide
 * it. */
int recorder_rings_window(const struct recorder_ring *rings, size_t ring_count, uint64_t since_ns, uint64_t from_ns,
                          uint64_t to_ns, size_t max_records, struct flight_window *ret, uint64_t *ret_horizon_ns);
