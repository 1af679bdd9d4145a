/* See gpu_state.h. */
#include "signals/gpu/gpu_state.h"

#include "sources/gpu/nvml.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

bool gpu_value_of(const struct gpu_device *device, enum gpu_value value, uint64_t *ret)
{
    *ret = device->values[value];
    return device->known & 1ull << value;
}

static bool is_set(const struct gpu_device *d, enum gpu_value value)
{
    uint64_t number;
    return gpu_value_of(d, value, &number) && number;
}

bool gpu_device_is_faulty(const struct gpu_device *d)
{
    return d->status || is_set(d, GPU_RECOVERY_ACTION) || is_set(d, GPU_REMAP_FAILED) || is_set(d, GPU_REMAP_PENDING);
}

const char *gpu_device_state_text(const struct gpu_device *d)
{
    uint64_t value;
    if (d->status)
        return "lost";
    if (is_set(d, GPU_RECOVERY_ACTION))
        return "its driver wants a reset or a restart";
    if (is_set(d, GPU_REMAP_FAILED))
        return "damaged memory";
    if (is_set(d, GPU_REMAP_PENDING))
        return "damaged memory, replaced by a reset";
    if (gpu_value_of(d, GPU_CLOCK_REASONS, &value) && value & (GPU_CLOCK_HW_THERMAL | GPU_CLOCK_SW_THERMAL))
        return "throttled: too hot";
    if (gpu_value_of(d, GPU_CLOCK_REASONS, &value) && value & (GPU_CLOCK_HW_SLOWDOWN | GPU_CLOCK_HW_POWER_BRAKE))
        return "throttled";
    return "ok";
}

void gpu_list_add_device(struct gpu_list *list, const struct gpu_device *device)
{
    if (list->device_count < GPU_LIST_MAX)
        list->devices[list->device_count++] = *device;
}

void gpu_list_add_process(struct gpu_list *list, const struct gpu_process *process)
{
    if (list->process_count < GPU_PROCESSES_MAX)
        list->processes[list->process_count++] = *process;
}

const struct gpu_device *gpu_list_find(const struct gpu_list *list, const char *uuid)
{
    for (size_t i = 0; uuid[0] && i < list->device_count; i++)
        if (strcmp(list->devices[i].uuid, uuid) == 0)
            return &list->devices[i];
    return NULL;
}

const struct gpu_device *gpu_list_device_of(const struct gpu_list *list, const struct gpu_process *process)
{
    for (size_t i = 0; i < list->device_count; i++)
        if (list->devices[i].index == process->device && list->devices[i].instance == GPU_NO_INSTANCE)
            return &list->devices[i];
    return NULL;
}

const struct gpu_device *gpu_list_match(const struct gpu_list *list, const struct gpu_device *device)
{
    const struct gpu_device *found = gpu_list_find(list, device->uuid);
    for (size_t i = 0; !found && i < list->device_count; i++) {
        const struct gpu_device *d = &list->devices[i];
        const bool is_identified = d->uuid[0] && device->uuid[0];
        if (!is_identified && d->index == device->index && d->instance == device->instance)
            found = d;
    }
    return found;
}

void gpu_list_take_over_identities(const struct gpu_list *before, struct gpu_list *now)
{
    for (size_t i = 0; i < now->device_count; i++) {
        struct gpu_device *d = &now->devices[i];
        if (d->uuid[0] || d->instance != GPU_NO_INSTANCE)
            continue;
        const struct gpu_device *was = gpu_list_match(before, d);
        if (!was || gpu_list_find(now, was->uuid))
            continue;
        memcpy(d->uuid, was->uuid, sizeof(d->uuid));
        memcpy(d->name, was->name, sizeof(d->name));
        memcpy(d->pci, was->pci, sizeof(d->pci));
    }
}

/* `pci`: as an Xid names it. */
static bool is_at(const struct gpu_device *device, const char *pci)
{
    const size_t size = strlen(pci);
    return strncasecmp(device->pci, pci, size) == 0 && (device->pci[size] == '.' || !device->pci[size]);
}

const struct gpu_device *gpu_list_at(const struct gpu_list *list, const char *pci)
{
    for (size_t i = 0; i < list->device_count; i++)
        if (is_at(&list->devices[i], pci))
            return &list->devices[i];
    return NULL;
}

const char *gpu_driver_format_failure(const struct gpu_driver *driver, char *out, size_t size)
{
    const char *message = driver->message[0] ? driver->message : "unknown";
    if (driver->error == NVML_OK) /* the process, not the library, failed */
        snprintf(out, size, "NVIDIA's driver is not polled: %s", message);
    else if (driver->error == NVML_LIBRARY_NOT_FOUND)
        snprintf(out, size, "NVIDIA's driver is not polled: its library " NVML_LIBRARY " cannot be loaded");
    else
        snprintf(out, size, "NVIDIA's driver refuses all calls: %s (error %d)", message, driver->error);
    return out;
}

void gpu_state_count_xid(struct gpu_state *state, const struct gpu_xid *xid)
{
    size_t i = 0;
    while (i < state->xid_count && (state->xids[i].code != xid->code || strcmp(state->xids[i].pci, xid->pci) != 0))
        i++;
    if (i == GPU_XIDS_MAX)
        return;
    if (i == state->xid_count) {
        state->xid_count++;
        state->xids[i].code = xid->code;
        snprintf(state->xids[i].pci, sizeof(state->xids[i].pci), "%s", xid->pci);
    }
    state->xids[i].count++;
    state->xids[i].last_ns = xid->h.time_ns;
}

const struct gpu_xid_count *gpu_state_last_xid(const struct gpu_state *state, const struct gpu_device *device)
{
    const struct gpu_xid_count *last = NULL;
    for (size_t i = 0; i < state->xid_count; i++)
        if (is_at(device, state->xids[i].pci) && (!last || state->xids[i].last_ns >= last->last_ns))
            last = &state->xids[i];
    return last;
}
