/* Which function of the library the child process is in, and since when: in memory that it shares with the agent, which
 * decides by that whether the driver hangs. The child's library can write anything there; readers check it. */
#pragma once

#include "base/clock.h"
#include "sources/gpu/nvml.h"

#include <stdatomic.h>

struct nvml_progress {
    _Atomic uint64_t since_ns; /* CLOCK_MONOTONIC; 0: in none */
    _Atomic uint32_t function; /* enum nvml_function, or NVML_LOAD */
    _Atomic uint32_t device;   /* index; GPU_NO_INSTANCE: none */
};
#define NVML_LOAD NVML_FUNCTION_COUNT /* dlopen */

static inline void nvml_progress_begin(struct nvml_progress *p, uint32_t function)
{
    atomic_store(&p->function, function);
    atomic_store(&p->since_ns, clock_monotonic_ns());
}

static inline int nvml_progress_end(struct nvml_progress *p, int error)
{
    atomic_store(&p->since_ns, 0);
    return error;
}
