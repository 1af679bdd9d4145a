/* The stack of work on a GPU: the kernel or copy, then the stack of its launch. */
#pragma once

#include "model/sample.h"

#include <linux/types.h>

#include "probes/gpu_time.h"

#include <stddef.h>

struct sample_resolver;

#define GPU_FRAMES_LABELS_MAX 16

/* Zeros at first; gpu_frames_clear frees. */
struct gpu_frames {
    struct frame *frames;
    size_t capacity;
    char leaf[GPU_NAME_MAX + 3], device[12];
    struct sample_label labels[GPU_FRAMES_LABELS_MAX];
    struct gpu_readable_name *names; /* a cache of demangled names */
};

/* Why a sample has no launch stack: a frame takes its place. NULL: it has one. */
#define GPU_FRAMES_NOT_TAKEN "[launch stack not taken]"
#define GPU_FRAMES_LOST      "[launch stack lost]"

/* Turns the sample of a launch into that of `sum`: value, count, frames, and the labels gpu.device and gpu.work. Frames
 * of the libraries that observe the launch are left out. `without`: one of the texts above; `s` then has no frames of
 * its own. `*s` borrows from `f` until the next call. -ENOMEM. */
int gpu_frames_put(struct gpu_frames *f, struct sample_resolver *resolver, const struct gpu_sum *sum,
                   const char *without, struct sample *s);
void gpu_frames_clear(struct gpu_frames *f);
