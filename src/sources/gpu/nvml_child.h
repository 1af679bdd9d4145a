/* The process "sonde-gpu": polls NVIDIA's driver through its management library when the agent asks, one byte a poll. A
 * call of the library can hang in the kernel for ever and its code is foreign, so it runs in a process that the agent
 * can do without: no capabilities, no new programs. It answers with the records of nvml_poller_poll, one a message; a
 * poll that failed is a gpu_driver record (GPU_DRIVER_FAILS). */
#pragma once

#include "sources/gpu/nvml_progress.h"

/* Never returns. `path`: what dlopen takes. */
_Noreturn void nvml_child_run(int socket, struct nvml_progress *progress, const char *path);
