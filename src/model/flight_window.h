/* What the flight recorder still has of an interval: its records, merged over all CPUs and ordered by time. Plain
 * data. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct recorder_record;

struct flight_window {
    const struct recorder_record *records; /* by time, ascending */
    size_t count;
    uint64_t complete_from_ns; /* records from here on are complete, on all CPUs; earlier ones may be missing */
};
