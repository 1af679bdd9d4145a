/* What request_routes keeps of each request, and the requests that a statistic is of. */
#pragma once

#include "model/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request_entry {
    uint64_t id, end_ns, duration_ns;
    uint32_t weight; /* in the sample; 0: not in it */
    uint32_t cause;  /* request_cause_key */
    uint16_t status;
    bool is_notable;     /* request.is_notable */
    uint8_t kind;        /* enum request_part_kind that explains it, when it was added */
    bool is_explained;   /* its components are known */
    bool is_over_budget; /* request.is_over_budget */
    uint32_t first_us;   /* until the first token of a stream; 0: none */
    uint32_t kind_us[REQUEST_PART_COUNT];
};

/* The latest requests; overwrites the oldest. */
struct request_ring {
    struct request_entry *entries;
    size_t count, room, next; /* `next` is overwritten next, once it is full */
    uint64_t overwritten_ns;  /* the end of the latest entry that was */
};

/* Adds an entry, or replaces the one with the same ID, which is not 0. The ring grows to `max` entries, as far as there
 * is memory; without any, the entry is left out. The owner frees `ring->entries`. */
void request_ring_add(struct request_ring *ring, const struct request_entry *e, size_t max);
/* The same if the caller has searched the ring for the entry with the same ID: `before`, NULL if the ring has no such
 * entry. */
void request_ring_put(struct request_ring *ring, struct request_entry *before, const struct request_entry *e,
                      size_t max);
/* NULL: none has this ID, or it is 0. */
struct request_entry *request_ring_find(const struct request_ring *ring, uint64_t id);

static inline uint32_t request_entry_us(uint64_t ns)
{
    const uint64_t us = (ns + 500) / 1000;
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

static inline bool request_entry_is_failed(const struct request_entry *e)
{
    return request_is_failed(e->status);
}
