/* The user stacks of threads that waited before anybody looked: the better method of the source of waits (offcpu.c). A
 * process of its own walks over all tasks (probes/sleeping_tasks.bpf.c), for what it reads may have to be swapped in,
 * and may be held up by whoever changes the mappings that it lies in; it ends by itself after ASLEEP_MAX_S. What it has
 * not come to by then keeps the kernel's part alone. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/attach.h"

#include <linux/types.h>

#include "probes/sleeping_tasks.h"

#include <stddef.h>
#include <stdint.h>

#define ASLEEP_MAX_S   5
#define ASLEEP_LAST_MS 1000 /* for what it is about, when the recording ends */

struct sleeping_tasks;

/* `records`, `threads`: the maps of offcpu.bpf.c. NULL in *ret_sleeping_tasks on a kernel that cannot, which the
 * report's entry says. */
int sleeping_tasks_new(int records_fd, size_t ring_bytes, int threads_fd, struct attach_report *report,
                       struct sleeping_tasks **ret_sleeping_tasks);
void sleeping_tasks_free(struct sleeping_tasks *a);
DEFINE_FREEP(sleeping_tasks)

/* All below do nothing without one. */

/* Begins to read what the threads' table says was found waiting. */
int sleeping_tasks_start(struct sleeping_tasks *a);
/* Waits for it so long at most, and ends it. Nobody empties the ring meanwhile. */
void sleeping_tasks_end(struct sleeping_tasks *a, int patience_ms);

struct sleeping_tasks_stats sleeping_tasks_read_stats(const struct sleeping_tasks *a);
size_t sleeping_tasks_memory_bytes(const struct sleeping_tasks *a, int cpu_count);
