/* The samples of some seconds in slots of 20 ms: the data of a heatmap (columns are seconds, rows the slots of a
 * second). Plain data; created by aggregate/window.c, written by export/heatmap_json.c. */
#pragma once

#include "base/cleanup.h"
#include "model/profile.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define HEATMAP_SLOT_NS          20000000ull
#define HEATMAP_SLOTS_PER_SECOND 50

struct heatmap_second {
    bool kept; /* false: its samples are no longer stored by slot, and its cells are unknown */
    struct profile_amount cells[HEATMAP_SLOTS_PER_SECOND];
};

struct heatmap {
    uint64_t start_ns;      /* CLOCK_MONOTONIC, a whole second */
    uint64_t start_unix_ns; /* the same time, by the present offset between the clocks */
    uint64_t now_ns;        /* CLOCK_MONOTONIC at the time of the query; set by the caller */
    uint64_t period;        /* sampling period, at full detail */
    uint32_t second_count;
    struct heatmap_second seconds[];
};

static inline void heatmap_free(struct heatmap *h)
{
    free(h);
}
DEFINE_FREEP(heatmap)
