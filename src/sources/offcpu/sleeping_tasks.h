/* Reads the user stacks of threads that were already waiting when the recording began, for the off-CPU source
 * (offcpu.c). A helper process walks all tasks (probes/sleeping_tasks.bpf.c, iterator_helper.h) for
 * ITERATOR_HELPER_MAX_S at the longest; a thread it has not reached by then keeps its kernel stack only. Pipeline
 * thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/attach.h"

#include <linux/types.h>

#include "probes/sleeping_tasks.h"

#include <stddef.h>
#include <stdint.h>

#define SLEEPING_TASKS_LAST_MS 1000 /* for the walk in progress when the recording ends */

struct sleeping_tasks;

/* `records_fd`, `threads_fd`: the maps of offcpu.bpf.c. Sets *ret_sleeping_tasks to NULL where the kernel does not
 * support it; the entry in `report` says so. -ENOMEM. */
int sleeping_tasks_new(int records_fd, size_t ring_bytes, int threads_fd, struct attach_report *report,
                       struct sleeping_tasks **ret_sleeping_tasks);
void sleeping_tasks_free(struct sleeping_tasks *a);
DEFINE_FREEP(sleeping_tasks)

/* The functions below accept NULL and then do nothing. */

/* Starts a walk over all tasks, unless one is running. Reads the stacks of threads that the thread table marks as
 * waiting since before the start. */
int sleeping_tasks_start(struct sleeping_tasks *a);
/* Waits up to `patience_ms` for the walk, then kills it. The ring is not drained meanwhile. */
void sleeping_tasks_end(struct sleeping_tasks *a, int patience_ms);

struct sleeping_tasks_stats sleeping_tasks_read_stats(const struct sleeping_tasks *a);
size_t sleeping_tasks_memory_bytes(const struct sleeping_tasks *a, int cpu_count);
