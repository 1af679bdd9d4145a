/* NVIDIA GPUs: the source of signal "gpu", and its options. Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

extern const struct source source_gpu;

/* Filled from the settings (signals/gpu/gpu.c). */
struct gpu_options {
    bool enabled;
    uint64_t hang_after_ns;
};
