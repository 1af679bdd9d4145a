/* See gpu_hangs.h. */
#include "signals/gpu/gpu_hangs.h"

#include <stdbool.h>

#define BUSY_MIN   95 /* percent of the time */
#define MOST_OF_IT 50 /* percent: the process's share of a GPU that others use, too */
#define HUNDREDTHS 100

static bool is_busy(const struct gpu_device *d)
{
    uint64_t value;
    if (gpu_value_of(d, GPU_ENGINE_ACTIVE, &value))
        return value >= BUSY_MIN * HUNDREDTHS;
    return gpu_value_of(d, GPU_UTILIZATION, &value) && value >= BUSY_MIN;
}

static void follow_devices(struct gpu_hangs *h, const struct gpu_list *list, uint64_t time_ns)
{
    uint64_t before[GPU_DEVICES_MAX];
    for (size_t i = 0; i < GPU_DEVICES_MAX; i++) {
        before[i] = h->busy_since_ns[i];
        h->busy_since_ns[i] = 0;
    }
    for (size_t i = 0; i < list->device_count; i++) {
        const struct gpu_device *d = &list->devices[i];
        if (d->instance == GPU_NO_INSTANCE && d->index < GPU_DEVICES_MAX && is_busy(d))
            h->busy_since_ns[d->index] = before[d->index] ? before[d->index] : time_ns;
    }
}

static bool is_alone(const struct gpu_list *list, const struct gpu_process *p)
{
    for (size_t i = 0; i < list->process_count; i++)
        if (list->processes[i].device == p->device && list->processes[i].h.pid != p->h.pid)
            return false;
    return true;
}

static bool is_reported(struct gpu_hangs *h, const struct cuda_activity_process *calls)
{
    for (size_t i = 0; i < GPU_HANGS_KEPT; i++)
        if (h->reported[i].tid == calls->waiting_tid && h->reported[i].waiting_ns == calls->waiting_ns)
            return true;
    return false;
}

static bool lasts(const struct gpu_hangs *h, uint64_t since_ns, uint64_t time_ns)
{
    return since_ns && since_ns < time_ns && time_ns - since_ns >= h->after_ns;
}

void gpu_hangs_poll(struct gpu_hangs *h, const struct gpu_list *list, const struct cuda_activity *calls,
                    uint64_t time_ns, void (*take)(void *context, const struct gpu_hang *hang), void *context)
{
    follow_devices(h, list, time_ns);
    for (size_t i = 0; i < list->process_count; i++) {
        const struct gpu_process *p = &list->processes[i];
        const struct cuda_activity_process *c = cuda_activity_find(calls, p->h.pid);
        const struct gpu_device *device = gpu_list_device_of(list, p);
        if (!c || !c->waiting_tid || !device || device->index >= GPU_DEVICES_MAX ||
            !lasts(h, h->busy_since_ns[device->index], time_ns) || !lasts(h, c->waiting_ns, time_ns) ||
            !lasts(h, c->launched_ns, calls->read_ns))
            continue;
        if (!is_alone(list, p) && (p->busy == UINT32_MAX || p->busy < MOST_OF_IT))
            continue;
        if (is_reported(h, c))
            continue;
        h->reported[h->next_reported].tid = c->waiting_tid;
        h->reported[h->next_reported].waiting_ns = c->waiting_ns;
        h->next_reported = (h->next_reported + 1) % GPU_HANGS_KEPT;
        take(context, &(struct gpu_hang){.device = device,
                                         .pid = p->h.pid,
                                         .time_ns = time_ns,
                                         .waited_ns = time_ns - c->waiting_ns,
                                         .idle_ns = calls->read_ns - c->launched_ns,
                                         .calls = *c});
    }
}
