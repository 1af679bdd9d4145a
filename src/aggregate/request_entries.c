/* Rings of entries that overwrite the oldest; see request_entries.h. */
#include "aggregate/request_entries.h"

#include <stdlib.h>

#define FIRST_ROOM 16

struct request_entry *request_ring_find(const struct request_ring *ring, uint64_t id)
{
    for (size_t i = 0; id && i < ring->count; i++)
        if (ring->entries[i].id == id)
            return &ring->entries[i];
    return NULL;
}

static void grow(struct request_ring *ring, size_t max)
{
    const size_t room = !ring->room ? FIRST_ROOM : ring->room * 2 < max ? ring->room * 2 : max;
    struct request_entry *grown = realloc(ring->entries, room * sizeof(*grown));
    if (!grown)
        return;
    ring->entries = grown;
    ring->room = room;
}

void request_ring_add(struct request_ring *ring, const struct request_entry *e, size_t max)
{
    request_ring_put(ring, request_ring_find(ring, e->id), e, max);
}

void request_ring_put(struct request_ring *ring, struct request_entry *before, const struct request_entry *e,
                      size_t max)
{
    if (before) {
        *before = *e;
        return;
    }
    if (ring->count == ring->room && ring->room < max)
        grow(ring, max);
    if (ring->count < ring->room) {
        ring->entries[ring->count++] = *e;
    } else if (ring->count) {
        if (ring->entries[ring->next].end_ns > ring->overwritten_ns)
            ring->overwritten_ns = ring->entries[ring->next].end_ns;
        ring->entries[ring->next] = *e;
        ring->next = (ring->next + 1) % ring->count;
    }
}
