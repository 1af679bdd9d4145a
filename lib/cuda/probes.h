/* The USDT probes of libsonde-cuda, provider "sonde_cuda". A recorder attaches to "record" first and to "launch" then;
 * the kernel counts both semaphores up, and down when the recorder ends for whatever reason. Nothing here blocks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct record_header;

/* Whether a recorder is attached to the launches of this process. */
bool cuda_probes_wanted(void);

/* A launch: the recorder takes the stack of the calling thread. */
void cuda_probes_launch(uint64_t launch);

/* A finished struct gpu_sum or struct gpu_window, which the recorder copies before this returns. */
void cuda_probes_record(const struct record_header *record);
