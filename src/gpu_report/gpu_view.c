/* See gpu_view.h. */
#include "gpu_report/gpu_view.h"

#include "base/buf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HUNDREDTHS 100

uint32_t gpu_view_omitted(const struct gpu_view *view)
{
    return view->processes > view->list->process_count ? view->processes - (uint32_t)view->list->process_count : 0;
}

const char *gpu_view_command(uint32_t pid, char out[GPU_COMMAND_BYTES])
{
    _cleanup_buf_ struct buf name = {0};
    char path[48];
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/comm", pid);
    const bool is_read = buf_read_file(&name, path, GPU_COMMAND_BYTES) == 0 && name.data;
    snprintf(out, GPU_COMMAND_BYTES, "%s", is_read ? name.data : "");
    out[strcspn(out, "\n")] = '\0';
    return out;
}

const char *gpu_view_service(const struct gpu_view *view, uint32_t pid)
{
    const struct agent_gpu_process *p = view->now ? agent_gpu_find(view->now, pid) : NULL;
    return p ? p->service : "";
}

/* A count that is smaller than before has begun again in between. */
bool gpu_view_rate(const struct gpu_view *view, uint32_t pid, enum agent_gpu_count count, double *ret)
{
    const struct agent_gpu_process *was = view->before ? agent_gpu_find(view->before, pid) : NULL;
    const struct agent_gpu_process *is = view->now ? agent_gpu_find(view->now, pid) : NULL;
    if (!was || !is || !(was->known & is->known & 1u << count) || view->now->time_s <= view->before->time_s ||
        is->counts[count] < was->counts[count])
        return false;
    *ret = (is->counts[count] - was->counts[count]) / (view->now->time_s - view->before->time_s);
    return true;
}

bool gpu_view_launch_rate(const struct gpu_view *view, uint32_t pid, double *ret)
{
    double kernels, graphs;
    if (!gpu_view_rate(view, pid, AGENT_GPU_LAUNCHES, &kernels) ||
        !gpu_view_rate(view, pid, AGENT_GPU_GRAPH_LAUNCHES, &graphs))
        return false;
    *ret = kernels + graphs;
    return true;
}

bool gpu_view_busy(const struct gpu_device *device, double *ret)
{
    uint64_t value;
    if (gpu_value_of(device, GPU_ENGINE_ACTIVE, &value)) {
        *ret = (double)value / HUNDREDTHS;
        return true;
    }
    if (!gpu_value_of(device, GPU_UTILIZATION, &value))
        return false;
    *ret = (double)value;
    return true;
}
