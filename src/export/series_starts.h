/* When each cumulative series began to count, as OTLP's start times require. The agent's series begin with the agent,
 * or later: with their job, cgroup or service. A series may also begin again at 0, after its job was forgotten.
 *
 * Remembers the series of the last collection, 24 bytes each. No clock: times are passed in, of CLOCK_MONOTONIC. */
#pragma once

#include "base/cleanup.h"

#include <stdint.h>

struct series_starts;

/* `start_ns`: the start of all series of the first collection. The caller frees `*ret`. -ENOMEM. */
int series_starts_new(uint64_t start_ns, struct series_starts **ret);
void series_starts_free(struct series_starts *s);
DEFINE_FREEP(series_starts)

/* The series of one collection follow, by series_starts_find. `time_ns`: the time of its points; `read_ns`, not later:
 * when the oldest of its values was read. */
void series_starts_begin(struct series_starts *s, uint64_t time_ns, uint64_t read_ns);

/* Returns the start of a series, by a hash of its name and attributes. One that was not in the last collection began
 * after the values of that one were read; one whose value is lower than in the last collection began after its last
 * point. `value`: the counter, or the count of a histogram. */
uint64_t series_starts_find(struct series_starts *s, uint64_t series, double value);

/* Forgets the series that were not in this collection. -ENOMEM: some are missing, and begin again in the next one. */
int series_starts_end(struct series_starts *s);
