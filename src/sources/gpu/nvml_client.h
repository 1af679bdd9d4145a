/* The agent's end of the process "sonde-gpu" (nvml_child.h): starts it where the library is, asks it for polls, and
 * ends it when a call of the library does not return. Never waits for it. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/gpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvml_client;

#define NVML_POLL_NS     5000000000ull  /* between the beginnings of two polls of the agent */
#define NVML_CALL_MAX_NS 5000000000ull  /* a call that takes longer hangs */
#define NVML_INIT_MAX_NS 60000000000ull /* that of nvmlInit: it initializes all devices */
#define NVML_RETRY_NS    60000000000ull /* after a failure, and between two looks for the library */

/* The caller frees `*ret`. -ENOMEM. Looks for the library, and starts nothing yet. `interval_ns`: between the
 * beginnings of two polls. */
int nvml_client_new(uint64_t interval_ns, struct nvml_client **ret);
/* Ends the process, without waiting for one that is blocked in the kernel. */
void nvml_client_free(struct nvml_client *c);
DEFINE_FREEP(nvml_client)

/* Whether the library was there at the last look. */
bool nvml_client_has_library(const struct nvml_client *c);

/* Does what is due at `now_ns` (CLOCK_MONOTONIC), and passes the records that have arrived, whose size and kind are
 * checked and whose time is set. */
void nvml_client_turn(struct nvml_client *c, uint64_t now_ns,
                      void (*take)(void *context, const struct record_header *record), void *context);

uint64_t nvml_client_cpu_ns(const struct nvml_client *c); /* CPU time of its processes */
