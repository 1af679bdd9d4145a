/* What `sonde why --hang` says of a process: whether it hangs in a call of CUDA or NCCL, the evidence, and the stacks
 * of its threads. */
#pragma once

#include "base/buf.h"
#include "signals/process_threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A thread that waits for the GPU for so long, without a launch, is a hang if the GPU is busy. */
#define GPU_HANG_AFTER_NS 30000000000ull
/* Likewise for other ranks, if NCCL reports that none of them goes on. */
#define NCCL_HANG_AFTER_NS 60000000000ull

/* The evidence. Texts are never NULL. */
struct gpu_hang_report {
    uint32_t pid;
    const char *command;                  /* name of the process */
    const struct process_thread *threads; /* as of process_threads_read */
    size_t thread_count, omitted;         /* omitted: further ones */
    uint64_t observed_ns;

    bool counts_calls;   /* the next two are known */
    uint64_t counted_ns; /* for how long calls were counted */
    uint64_t launches;   /* of kernels and graphs in that time */

    bool has_device; /* the process is on a GPU, which the next three describe */
    uint32_t device;
    bool is_shared;    /* other processes are on it, too, which may be what keeps it busy */
    unsigned busy_min; /* percent of the time, of all polls the lowest; UINT32_MAX: unknown */

    const char *event; /* text of the agent's last event gpu.hang of this process, which has launched nothing since; "":
                          none */
    uint64_t event_ago_ns;

    const char *ranks; /* nccl_communicator_put of one in which no rank goes on; "": none is known */
};

enum gpu_hang_verdict {
    GPU_HANG_NONE,  /* no thread waits for the GPU or for other ranks */
    GPU_HANG_WAITS, /* one does, and nothing shows that it will not end */
    GPU_HANG_FOUND,
};

/* Judges the evidence, and appends a sentence with it. */
enum gpu_hang_verdict gpu_hang_judge(const struct gpu_hang_report *report, struct buf *out);
/* The sentence and, unless nothing hangs, the threads with their stacks. */
void gpu_hang_put(const struct gpu_hang_report *report, struct buf *out);
