/* Requests of jobs to block devices: series like the series of mounts (io_series.h), from the kernel's counters by
 * cgroup and device. The cgroups belong to the controller io or blkio: a job's path is the same there, or it has
 * none. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "resolve/proc/job.h"

#include "probes/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct io_devices;

/* One series. Borrowed. */
struct io_device_point {
    const struct job *job; /* manager "kernel": requests without a cgroup; "other": series without room */
    const char *device;    /* as in /sys/block; "unknown" where there was no room */
    uint8_t operation;     /* enum io_device_operation */
    /* Requests by the time in the queue, or at the device; with the latter also bytes and errors. */
    bool is_queue;
    struct io_counters counters;
};

/* `source`: of the signal (sources/io/io.h), borrowed. -ENOMEM. */
int io_devices_new(void *source, size_t max_series, struct io_devices **ret);
void io_devices_free(struct io_devices *d);
DEFINE_FREEP(io_devices)

/* Reads the kernel's counters. */
void io_devices_refresh(struct io_devices *d, uint64_t now_ns);

void io_devices_each(const struct io_devices *d, void (*take)(void *context, const struct io_device_point *point),
                     void *context);
/* How many keys were added to "other" in the last round because the series were full. */
size_t io_devices_folded(const struct io_devices *d);
