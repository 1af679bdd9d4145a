/* How often each kernel ran and how long, by launch: sums that are reported through the probe "record" every tick and
 * at the end. Of a kernel's executions whose launch has no stack, the sum goes to its next launch that has one, so that
 * all sums of a kernel together are exact. Memory is bounded whatever happens. Not thread-safe. */
#pragma once

#include <linux/types.h>

#include "probes/gpu_time.h"

#include <stdbool.h>
#include <stdint.h>

#define SUMS_KERNELS_MAX 4096      /* different kernels in a window; further ones get one common name */
#define SUMS_NAMES_BYTES (1 << 20) /* of their names */

struct sums;

struct sums_work {
    enum gpu_work kind;
    uint32_t device;
    bool is_graph;
    const char *name; /* as long as the window lasts, equal pointers mostly mean equal names */
};

struct sums_totals {
    uint64_t executions, unnamed;
};

struct sums *sums_new(void); /* NULL: no memory */
void sums_free(struct sums *s);

/* An execution of `ns`. `launch` 0: its stack was not taken. */
void sums_add(struct sums *s, const struct sums_work *work, uint32_t launch, uint64_t ns);

/* Reports the sums of launches; with `all` also executions that found no launch with a stack. Empties what it
 * reports. */
void sums_report(struct sums *s, bool all);

void sums_totals(const struct sums *s, struct sums_totals *ret);
