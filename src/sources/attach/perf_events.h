/* One perf event a CPU, on every CPU that is online, followed as CPUs come and go; with a ring of records
 * each when asked for. What the cpu source samples with and the process source listens to. Pipeline thread
 * only. */
#pragma once

#include "base/cleanup.h"

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

struct perf_events;

/* Opens the event, disabled, on every online CPU. `program_fd` (borrowed, must outlive the set) is run on
 * each tick; -1: none. `ring_bytes` a CPU, rounded down to a power of two of pages; 0: no ring. The first
 * error of a CPU that is really online ends it. */
int perf_events_open(const struct perf_event_attr *attr, int program_fd, size_t ring_bytes, struct perf_events **ret);
void perf_events_free(struct perf_events *e);
DEFINE_FREEP(perf_events)

int perf_events_enable(struct perf_events *e);
int perf_events_disable(struct perf_events *e);

/* What the event of each CPU, below `count`, has counted; 0 where there is none now. */
void perf_events_values(const struct perf_events *e, uint64_t *ret, size_t count);

/* Ticks every `period` from now on, on CPUs that come later too. */
int perf_events_set_period(struct perf_events *e, uint64_t period);

/* Opens events on CPUs that came and closes those of CPUs that went; looks at most once a second. Returns how
 * many were opened: what happened there before was not seen. */
int perf_events_follow(struct perf_events *e, uint64_t now_ns);

/* Gives every record that is in the rings to `take`, CPU by CPU. A `take` that returns non-zero ends the
 * reading with that value and leaves its record in the ring. The record is borrowed for the call. */
typedef int (*perf_events_take)(void *context, unsigned cpu, const struct perf_event_header *record);
int perf_events_read(struct perf_events *e, perf_events_take take, void *context);

size_t perf_events_fds(const struct perf_events *e, int *ret_fds, size_t max);
size_t perf_events_count(const struct perf_events *e);
size_t perf_events_bytes(const struct perf_events *e);
