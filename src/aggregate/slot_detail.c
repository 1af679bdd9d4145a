/* The samples of a window by slots of 20 ms; see slot_detail.h. */
#include "aggregate/slot_detail.h"

#include <stdlib.h>

#define ENTRIES_MAX (1u << 24)

static uint32_t next_capacity(const struct slot_detail *d)
{
    return d->capacity + d->capacity / 2 + 32;
}

size_t slot_detail_growth(const struct slot_detail *d)
{
    return d->gone || d->count < d->capacity ? 0 : (next_capacity(d) - d->capacity) * sizeof(*d->samples);
}

static bool reserve_sample(struct slot_detail *d)
{
    if (d->count < d->capacity)
        return true;
    const uint32_t capacity = next_capacity(d);
    struct slot_detail_sample *grown = capacity > d->capacity ? realloc(d->samples, capacity * sizeof(*grown)) : NULL;
    if (!grown)
        return false;
    d->samples = grown;
    d->capacity = capacity;
    return true;
}

void slot_detail_add(struct slot_detail *d, uint32_t slot, uint32_t entry, uint64_t count, uint64_t value)
{
    if (d->gone)
        return;
    if (entry >= ENTRIES_MAX || slot >= SLOT_DETAIL_SLOTS_MAX || count != 1 || value > UINT32_MAX ||
        !reserve_sample(d)) {
        slot_detail_give_up(d);
        return;
    }
    d->samples[d->count++] = (struct slot_detail_sample){.entry = entry, .slot = slot, .value = (uint32_t)value};
}

void slot_detail_give_up(struct slot_detail *d)
{
    slot_detail_clear(d);
    d->gone = true;
}

void slot_detail_clear(struct slot_detail *d)
{
    free(d->samples);
    *d = (struct slot_detail){0};
}

void slot_detail_sum(const struct slot_detail *d, uint32_t first, uint32_t end, struct profile_amount *amounts)
{
    for (uint32_t i = 0; i < d->count; i++) {
        const struct slot_detail_sample *s = &d->samples[i];
        if (s->slot < first || s->slot >= end)
            continue;
        amounts[s->entry].count++;
        amounts[s->entry].value += s->value;
    }
}
