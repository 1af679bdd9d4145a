/* What processes do with libcuda, as the signal "cuda" last read it: evidence for the events of the signal "gpu". Plain
 * data; pipeline thread only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CUDA_ACTIVITY_MAX 256

struct cuda_activity_process {
    uint32_t pid;
    uint64_t launches;    /* of kernels and graphs, since they are counted */
    uint64_t launched_ns; /* when they were last found to have grown, or were first read */
    uint32_t waiting_tid; /* the thread that has waited for the GPU for longest; 0: none waits */
    uint64_t waiting_ns;  /* since when; CLOCK_MONOTONIC */
};

/* Zeroed: nothing is known. */
struct cuda_activity {
    uint64_t read_ns;
    size_t count;
    struct cuda_activity_process processes[CUDA_ACTIVITY_MAX];
};

/* Replaces all by `count` processes that were read at `read_ns`, at most CUDA_ACTIVITY_MAX. Sets their `launched_ns`.
 */
void cuda_activity_update(struct cuda_activity *a, struct cuda_activity_process *processes, size_t count,
                          uint64_t read_ns);

/* NULL: the calls of this process are not counted. `a` NULL: no calls are. */
const struct cuda_activity_process *cuda_activity_find(const struct cuda_activity *a, uint32_t pid);
