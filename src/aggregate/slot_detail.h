/* The position of each sample within its window: its entry in the window's profile, its slot of 20 ms and its value,
 * in eight bytes. The sum over all slots equals the profile exactly. A sample that does not fit the encoding (a
 * value above 32 bits, an entry above sixteen million) or the memory discards the whole detail of the
 * window: a partial one would be a heatmap with invisible gaps. Not thread-safe. */
#pragma once

#include "model/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOT_DETAIL_SLOTS_MAX 256

struct slot_detail_sample {
    uint32_t entry : 24, slot : 8;
    uint32_t value;
};

struct slot_detail {
    struct slot_detail_sample *samples; /* in order of arrival */
    uint32_t count, capacity;
    bool gone; /* discarded; nothing is added any more */
};

static inline size_t slot_detail_bytes(const struct slot_detail *d)
{
    return d->capacity * sizeof(*d->samples);
}

/* How many additional bytes the next slot_detail_add allocates; mostly 0. */
size_t slot_detail_growth(const struct slot_detail *d);
/* Adds a sample, allocating if needed. On failure discards the detail. */
void slot_detail_add(struct slot_detail *d, uint32_t slot, uint32_t entry, uint64_t count, uint64_t value);
void slot_detail_give_up(struct slot_detail *d);
/* Back to the initial, empty state. */
void slot_detail_clear(struct slot_detail *d);

/* Adds the samples of slots [first, end) to `amounts`, which has an element for every entry of the profile. */
void slot_detail_sum(const struct slot_detail *d, uint32_t first, uint32_t end, struct profile_amount *amounts);
