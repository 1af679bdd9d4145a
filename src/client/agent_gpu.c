/* See agent_gpu.h. */
#include "client/agent_gpu.h"

#include "base/cleanup.h"
#include "import/metrics_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct agent_gpu_process *process_of(struct agent_gpu *gpu, const struct metrics_text_series *s)
{
    const uint32_t pid = (uint32_t)strtoul(metrics_text_label(s, "pid"), NULL, 10);
    struct agent_gpu_process *p = (struct agent_gpu_process *)agent_gpu_find(gpu, pid);
    if (!pid || p || gpu->process_count == AGENT_GPU_PROCESSES_MAX)
        return p;
    p = &gpu->processes[gpu->process_count++];
    *p = (struct agent_gpu_process){.pid = pid};
    snprintf(p->service, sizeof(p->service), "%s", metrics_text_label(s, "service_name"));
    return p;
}

static void set_count(struct agent_gpu_process *p, enum agent_gpu_count count, double value)
{
    p->counts[count] = value;
    p->known |= 1u << count;
}

static void take_calls(struct agent_gpu_process *p, const struct metrics_text_series *s)
{
    static const struct {
        const char *call;
        enum agent_gpu_count count;
    } calls[] = {{"launch", AGENT_GPU_LAUNCHES},
                 {"graph_launch", AGENT_GPU_GRAPH_LAUNCHES},
                 {"copy", AGENT_GPU_COPIES},
                 {"allocation", AGENT_GPU_ALLOCATIONS}};
    for (size_t i = 0; i < array_size(calls); i++)
        if (strcmp(metrics_text_label(s, "call"), calls[i].call) == 0)
            set_count(p, calls[i].count, s->value);
}

static void take_series(struct agent_gpu *gpu, const struct metrics_text_series *s)
{
    if (strcmp(s->name, "sonde_cuda_timestamp_seconds") == 0)
        gpu->time_s = s->value;
    if (strcmp(s->name, "sonde_cuda_attachments") == 0) {
        gpu->counts_calls = true;
        gpu->attachments = s->value;
    }
    if (strncmp(s->name, "sonde_gpu_process_", 18) != 0)
        return;
    struct agent_gpu_process *p = process_of(gpu, s);
    if (p && strcmp(s->name, "sonde_gpu_process_calls_total") == 0)
        take_calls(p, s);
    if (p && strcmp(s->name, "sonde_gpu_process_synchronize_seconds_total") == 0)
        set_count(p, AGENT_GPU_WAIT_SECONDS, s->value);
}

int agent_gpu_parse(char *metrics, struct agent_gpu *ret)
{
    struct metrics_text_series series;
    bool is_agent = false;
    ret->time_s = ret->attachments = 0;
    ret->counts_calls = false;
    ret->process_count = 0;
    while (metrics_text_next(&metrics, &series)) {
        is_agent |= strcmp(series.name, "sonde_build_info") == 0;
        take_series(ret, &series);
    }
    return is_agent ? 0 : -EBADMSG;
}

const struct agent_gpu_process *agent_gpu_find(const struct agent_gpu *gpu, uint32_t pid)
{
    for (size_t i = 0; i < gpu->process_count; i++)
        if (gpu->processes[i].pid == pid)
            return &gpu->processes[i];
    return NULL;
}
