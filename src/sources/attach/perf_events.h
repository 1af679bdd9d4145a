/* One perf event per online CPU, opened and closed as CPUs come and go, optionally with a ring buffer each. The CPU
 * source samples with it, the process source reads side-band records from it. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

struct perf_events;

/* Opens the event, disabled, on every online CPU. `program_fd` (borrowed, must outlive the set) runs on each overflow;
 * -1: none. `ring_bytes` per CPU is rounded down to a power-of-two number of pages; 0: no ring. `attr` is copied; its
 * size and `disabled` are set here. The caller frees `*ret`. The first error of an online CPU, or -ENODEV. */
int perf_events_open(const struct perf_event_attr *attr, int program_fd, size_t ring_bytes, struct perf_events **ret);
void perf_events_free(struct perf_events *e);
DEFINE_FREEP(perf_events)

/* Enable or disable the events of all CPUs, and of CPUs that come online later. -errno: the first failure. */
int perf_events_enable(struct perf_events *e);
int perf_events_disable(struct perf_events *e);

/* Writes `count` counts, one for each CPU below that number: of its event, or 0 for a CPU without one. */
void perf_events_values(const struct perf_events *e, uint64_t *ret, size_t count);

/* Sets the sampling period, also for CPUs that come online later. */
int perf_events_set_period(struct perf_events *e, uint64_t period);

/* Opens events on new CPUs and closes the events of CPUs that went offline; checks at most once a second. Returns the
 * number of opened events: nothing was recorded on those CPUs before. -errno on failure. */
int perf_events_follow(struct perf_events *e, uint64_t now_ns);

/* Passes every record in the rings to `take`, CPU by CPU. A non-zero result of `take` ends the reading with that value
 * and leaves the record in the ring. The record is valid during the call only. */
typedef int (*perf_events_take)(void *context, unsigned cpu, const struct perf_event_header *record);
int perf_events_read(struct perf_events *e, perf_events_take take, void *context);

/* Writes up to `max` borrowed descriptors, which become readable at the ring's watermark; returns how many. */
size_t perf_events_fds(const struct perf_events *e, int *ret_fds, size_t max);
/* Memory held by the rings. */
size_t perf_events_bytes(const struct perf_events *e);
