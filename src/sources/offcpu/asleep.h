/* The user stacks of threads that waited before anybody looked: the better rung of the source of waits (offcpu.c). A process of its own walks
 * over all tasks (probes/asleep.bpf.c), for what it reads may have to be swapped in, and may be held up by whoever changes the mappings
 * that it lies in; it ends by itself after ASLEEP_MAX_S. What it has not come to by then keeps the kernel's part alone. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/attach.h"

#include <linux/types.h>

#include "probes/asleep.h"

#include <stddef.h>
#include <stdint.h>

#define ASLEEP_MAX_S   5
#define ASLEEP_LAST_MS 1000 /* for what it is about, when the recording ends */

struct asleep;

/* `records`, `threads`: the maps of offcpu.bpf.c. NULL in *ret_asleep on a kernel that cannot, which the report's entry says. */
int asleep_new(int records_fd, size_t ring_bytes, int threads_fd, struct attach_report *report, struct asleep **ret_asleep);
void asleep_free(struct asleep *a);
DEFINE_FREEP(asleep)

/* All below do nothing without one. */

/* Begins to read what the threads' table says was found waiting. */
int asleep_start(struct asleep *a);
/* Waits for it so long at most, and ends it. Nobody empties the ring meanwhile. */
void asleep_end(struct asleep *a, int patience_ms);

struct asleep_stats asleep_read_stats(const struct asleep *a);
size_t asleep_memory_bytes(const struct asleep *a, int cpu_count);
