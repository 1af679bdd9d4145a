/* Finds GPUs that do not finish the work of a process. The evidence, all of it for as long as the threshold:
 *
 * - a thread of the process has been in one call that waits for the GPU,
 * - the process has launched nothing,
 * - each poll found the GPU busy, and no other process can be what keeps it busy.
 *
 * A kernel that runs for longer than the threshold on purpose looks the same. Needs the calls that the signal "cuda"
 * counts. */
#pragma once

#include "signals/cuda_activity.h"
#include "signals/gpu/gpu_state.h"

#include <stdint.h>

#define GPU_HANGS_KEPT 64

struct gpu_hang {
    const struct gpu_device *device; /* borrowed */
    uint32_t pid;
    uint64_t time_ns;
    uint64_t waited_ns, idle_ns; /* of its thread; without a launch of the process */
    struct cuda_activity_process calls;
};

/* Zeroed but for the threshold: none yet. */
struct gpu_hangs {
    uint64_t after_ns;                       /* the threshold */
    uint64_t busy_since_ns[GPU_DEVICES_MAX]; /* by index: each poll since then found it busy; 0: the last one did not */
    struct {
        uint32_t tid;
        uint64_t waiting_ns;
    } reported[GPU_HANGS_KEPT]; /* waits; the oldest is overwritten */
    size_t next_reported;
};

/* Takes a poll at `time_ns`. Passes each hang once to `take`. `calls` NULL: not counted. */
void gpu_hangs_poll(struct gpu_hangs *h, const struct gpu_list *list, const struct cuda_activity *calls,
                    uint64_t time_ns, void (*take)(void *context, const struct gpu_hang *hang), void *context);
