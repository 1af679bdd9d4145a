/* The processes on GPUs as an agent knows them: their services and, with cuda.enabled, their calls of libcuda. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENT_GPU_PROCESSES_MAX 512

/* Counters of a process since the agent attached to its libcuda. */
enum agent_gpu_count {
    AGENT_GPU_LAUNCHES,
    AGENT_GPU_GRAPH_LAUNCHES,
    AGENT_GPU_COPIES,
    AGENT_GPU_ALLOCATIONS,
    AGENT_GPU_WAIT_SECONDS, /* of all its threads, in calls that wait for the GPU */
    AGENT_GPU_COUNTS,
};

struct agent_gpu_process {
    uint32_t pid;
    char service[128]; /* "": not known */
    unsigned known;    /* bit (1 << enum agent_gpu_count): the count is known */
    double counts[AGENT_GPU_COUNTS];
};

struct agent_gpu {
    double time_s;     /* Unix time when the agent read the counts; 0: it does not count */
    bool counts_calls; /* cuda.enabled */
    double attachments;
    size_t process_count; /* at most AGENT_GPU_PROCESSES_MAX; further ones are left out */
    struct agent_gpu_process processes[AGENT_GPU_PROCESSES_MAX];
};

/* Reads an agent's /metrics, which is NUL-terminated and is changed. 0; -EBADMSG: no agent's metrics. */
int agent_gpu_parse(char *metrics, struct agent_gpu *ret);

/* NULL: the agent does not know this process. */
const struct agent_gpu_process *agent_gpu_find(const struct agent_gpu *gpu, uint32_t pid);
