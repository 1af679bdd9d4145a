/* What `sonde gpu` shows of one interval: devices and processes as NVIDIA's driver reports them, calls of libcuda as an
 * agent counts them, and a verdict on each device. */
#pragma once

#include "client/agent_gpu.h"
#include "signals/gpu/gpu_state.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu_view {
    const struct gpu_list *list;
    const char *driver;                   /* its version; "": not known */
    uint32_t processes;                   /* on all devices, also those that `list` has no room for */
    uint64_t interval_ns;                 /* between the two last polls; 0: there was only one */
    const struct agent_gpu *before, *now; /* of the agent, the interval's begin and end; NULL: not known */
    const char *calls_missing;            /* why calls are not known, a sentence; "": they are */
};

/* How many processes on GPUs the list has no room for. */
uint32_t gpu_view_omitted(const struct gpu_view *view);

#define GPU_COMMAND_BYTES 32
/* Writes the name of the process to `out`; "" if it has none or has ended. Returns `out`. */
const char *gpu_view_command(uint32_t pid, char out[GPU_COMMAND_BYTES]);

/* The service of the process; "": not known. */
const char *gpu_view_service(const struct gpu_view *view, uint32_t pid);

/* How much this count of the process has grown a second, over the interval. False: not known. */
bool gpu_view_rate(const struct gpu_view *view, uint32_t pid, enum agent_gpu_count count, double *ret);
/* Launches of kernels and of graphs a second. False: not known. */
bool gpu_view_launch_rate(const struct gpu_view *view, uint32_t pid, double *ret);

/* Percent of the time in which the device was busy: between the two last polls where the device measures that, else in
 * the driver's last sample period. False: not known. */
bool gpu_view_busy(const struct gpu_device *device, double *ret);

enum gpu_verdict {
    GPU_VERDICT_UNKNOWN,
    GPU_VERDICT_FAULTY,
    GPU_VERDICT_IDLE,
    GPU_VERDICT_GPU_BOUND,     /* the GPU is busy and programs wait for it */
    GPU_VERDICT_NOT_KEPT_BUSY, /* programs launch work and hardly wait, and the GPU has not enough to do */
    GPU_VERDICT_MIXED,         /* neither */
    GPU_VERDICTS,
};
#define GPU_VERDICT_BYTES 256

/* "gpu_bound", ... */
const char *gpu_verdict_name(enum gpu_verdict verdict);
/* Judges a whole device, and writes a sentence with the evidence to `out`. */
enum gpu_verdict gpu_verdict_of(const struct gpu_view *view, const struct gpu_device *device,
                                char out[GPU_VERDICT_BYTES]);
