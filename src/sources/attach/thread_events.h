/* One perf event on each thread of a process; threads and processes that these start inherit it. Pipeline thread only.
 */
#pragma once

#include "base/cleanup.h"

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

#define THREAD_EVENTS_MAX 64 /* of a process; further threads have none */

struct thread_events;

/* Opens the event, enabled, on the threads of process `pid`. `program_fd` (borrowed during the call) runs on each
 * overflow. `attr` is copied; its size, `disabled` and `inherit` are set here. The caller frees `*ret`. The error of
 * the last thread if none has an event; -ESRCH: the process is gone. */
int thread_events_open(const struct perf_event_attr *attr, int program_fd, uint32_t pid, struct thread_events **ret);
void thread_events_free(struct thread_events *e);
DEFINE_FREEP(thread_events)
