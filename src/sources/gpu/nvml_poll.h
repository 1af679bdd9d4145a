/* Reads all devices and their processes once, through NVIDIA's management library. Runs in the child process
 * (nvml_child.h); any of its calls may hang. */
#pragma once

#include <linux/types.h>

#include "probes/gpu.h"
#include "sources/gpu/nvml.h"
#include "sources/gpu/nvml_progress.h"

#include <stdbool.h>

/* What remains of a device between polls. */
struct nvml_seen {
    void *gpm_samples[2]; /* the last one taken is the first */
    bool has_gpm_sample;
    uint64_t sampled_us;                            /* the newest sample of its processes; CLOCK_REALTIME */
    char uuid[sizeof((struct gpu_device){0}.uuid)]; /* identities that were read before the device was lost */
    char name[sizeof((struct gpu_device){0}.name)];
    char pci[sizeof((struct gpu_device){0}.pci)];
};

struct nvml_poller {
    struct nvml_functions functions;
    struct nvml_progress *progress;
    struct nvml_seen seen[GPU_DEVICES_MAX];
    char driver[sizeof((struct gpu_poll){0}.driver)];
};

/* Initializes the library. 0, or its error. */
int nvml_poller_init(struct nvml_poller *p);

/* Emits a gpu_device for each device, each followed by its gpu_process records, and a gpu_poll at the end. What the
 * driver does not know is not among a device's known values. 0, or the library's error, which concerns all devices. */
int nvml_poller_poll(struct nvml_poller *p, void (*emit)(void *context, const struct record_header *record),
                     void *context);
