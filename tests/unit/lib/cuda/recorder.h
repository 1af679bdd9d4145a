/* In place of the probes of libsonde-cuda (cuda/probes.c): keeps what a recorder would get. */
#pragma once

#include "cuda/probes.h"

#include <linux/types.h>

#include "probes/gpu_time.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define RECORDED_SUMS_MAX 16384

struct recorded_sum {
    char name[GPU_NAME_MAX + 1];
    struct gpu_sum sum;
};

static struct {
    atomic_bool is_attached;
    uint32_t launches, first_launch, last_launch;
    struct recorded_sum sums[RECORDED_SUMS_MAX];
    size_t sum_count;
    uint64_t all_count, all_ns; /* of all sums, also those beyond RECORDED_SUMS_MAX */
    struct gpu_window window;   /* the last one */
    _Atomic uint32_t windows[GPU_WINDOW_STATE_COUNT];
} recorded;

bool cuda_probes_wanted(void)
{
    return recorded.is_attached;
}

void cuda_probes_launch(uint64_t launch)
{
    if (recorded.launches++ == 0)
        recorded.first_launch = (uint32_t)launch;
    recorded.last_launch = (uint32_t)launch;
}

void cuda_probes_record(const struct record_header *record)
{
    if (record->kind == RECORD_GPU_WINDOW) {
        recorded.window = *(const struct gpu_window *)record;
        recorded.windows[recorded.window.state]++;
        return;
    }
    const struct gpu_sum *sum = (const struct gpu_sum *)record;
    recorded.all_count += sum->count;
    recorded.all_ns += sum->ns;
    if (recorded.sum_count == RECORDED_SUMS_MAX)
        return;
    struct recorded_sum *to = &recorded.sums[recorded.sum_count++];
    to->sum = *sum;
    memcpy(to->name, sum + 1, sum->name_bytes);
    to->name[sum->name_bytes] = '\0';
}

/* The sum of all sums of this name; launch: of it alone, unless it is NO_LAUNCH. */
#define NO_LAUNCH UINT32_MAX
static inline struct gpu_sum recorded_sum(const char *name, uint32_t launch)
{
    struct gpu_sum all = {0};
    for (size_t i = 0; i < recorded.sum_count; i++) {
        const struct gpu_sum *s = &recorded.sums[i].sum;
        if (strcmp(recorded.sums[i].name, name) != 0 || (launch != NO_LAUNCH && s->launch != launch))
            continue;
        const struct gpu_sum before = all;
        all = *s;
        all.count += before.count;
        all.ns += before.ns;
    }
    return all;
}
