/* When within its window each sample was: its entry in the window's profile, its slot of 20 ms and its weight, in eight
 * bytes. Added up over all slots it is the profile, exactly. What does not fit into that (a weight of more than four
 * seconds, sixteen million entries) or into memory ends the whole detail of the window: a part of it would be a heatmap
 * with holes that nobody sees. Not thread-safe. */
#pragma once

#include "model/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOT_DETAIL_SLOTS_MAX 256

struct slot_detail_sample {
    uint32_t entry : 24, slot : 8;
    uint32_t weight_ns;
};

struct slot_detail {
    struct slot_detail_sample *samples; /* in order of adding */
    uint32_t count, capacity;
    bool gone; /* it was there, and has been given up; nothing is added any more */
};

static inline size_t slot_detail_bytes(const struct slot_detail *d)
{
    return d->capacity * sizeof(*d->samples);
}

/* How many bytes more adding one sample takes; 0 mostly. */
size_t slot_detail_growth(const struct slot_detail *d);
/* Takes those bytes where there is no room. When it cannot, the detail is gone. */
void slot_detail_add(struct slot_detail *d, uint32_t slot, uint32_t entry, uint64_t count, uint64_t weight_ns);
void slot_detail_give_up(struct slot_detail *d);
/* As if nothing had ever been in it. */
void slot_detail_clear(struct slot_detail *d);

/* What the slots [first, end) hold of each entry is added to `amounts`, which has a row for every entry of the profile.
 */
void slot_detail_sum(const struct slot_detail *d, uint32_t first, uint32_t end, struct profile_amount *amounts);
