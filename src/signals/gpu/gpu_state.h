/* The GPUs of the node as the last poll found them, and what has been counted since the agent's start. Plain data. */
#pragma once

#include <linux/types.h>

#include "probes/gpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_LIST_MAX (GPU_DEVICES_MAX + GPU_INSTANCES_MAX)

/* Instances of MIG are among the devices. */
struct gpu_list {
    size_t device_count, process_count;
    struct gpu_device devices[GPU_LIST_MAX];
    struct gpu_process processes[GPU_PROCESSES_MAX];
};

#define GPU_XIDS_MAX 64 /* devices and codes; further ones are not counted */
struct gpu_xid_count {
    char pci[32];
    uint32_t code;
    uint64_t count;
    uint64_t last_ns; /* when the last one was logged */
};

struct gpu_state {
    bool is_polled; /* `now` is of a poll */
    enum gpu_driver_state driver;
    int driver_error; /* of the library, with GPU_DRIVER_FAILS */
    struct gpu_poll poll;
    struct gpu_list now;
    size_t xid_count;
    struct gpu_xid_count xids[GPU_XIDS_MAX];
    bool finds_hangs;                /* the calls that this needs are counted */
    uint64_t hangs[GPU_DEVICES_MAX]; /* by index of the device */
};

/* Whether the value is known, with the value. */
bool gpu_value_of(const struct gpu_device *device, enum gpu_value value, uint64_t *ret);

/* Whether the device is lost, must be reset or has damaged memory. */
bool gpu_device_is_faulty(const struct gpu_device *device);
/* Returns the state of the device in words, of several the worst: "lost", "damaged memory", "ok". A static string. */
const char *gpu_device_state_text(const struct gpu_device *device);

/* Add a record of a poll; a full list stays as it is. */
void gpu_list_add_device(struct gpu_list *list, const struct gpu_device *device);
void gpu_list_add_process(struct gpu_list *list, const struct gpu_process *process);

/* The device with this UUID; NULL: none, or the UUID is "". */
const struct gpu_device *gpu_list_find(const struct gpu_list *list, const char *uuid);

/* The whole device that the process uses, also where it uses an instance of it; NULL: the list does not have it. */
const struct gpu_device *gpu_list_device_of(const struct gpu_list *list, const struct gpu_process *process);

/* Returns the device of `list` that `device` is. The UUID decides; where one of the two has none, because the device
 * was lost before its identity could be read, index and instance do. NULL: `list` does not have it. */
const struct gpu_device *gpu_list_match(const struct gpu_list *list, const struct gpu_device *device);

/* Gives whole devices of `now` without a UUID the UUID, name and bus address that the device of their index has in
 * `before`. A UUID that another device of `now` has stays with that device. */
void gpu_list_take_over_identities(const struct gpu_list *before, struct gpu_list *now);

/* The device at a bus address that an Xid names, "0000:3b:00"; NULL: none. */
const struct gpu_device *gpu_list_at(const struct gpu_list *list, const char *pci);

/* Writes to `out` why there are no values of devices, for a record of GPU_DRIVER_FAILS. Returns `out`. */
const char *gpu_driver_format_failure(const struct gpu_driver *driver, char *out, size_t size);

/* The error that was logged last for this device; NULL: none that is counted. */
const struct gpu_xid_count *gpu_state_last_xid(const struct gpu_state *state, const struct gpu_device *device);

void gpu_state_count_xid(struct gpu_state *state, const struct gpu_xid *xid);
