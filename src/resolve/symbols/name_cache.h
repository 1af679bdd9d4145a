/* A bounded cache of names by two numbers (an object and a place in it): a two-way set-associative table over
 * string_arena.h. An entry's text is two strings, one after the other; name_cache_second returns the second. Any
 * entry may be evicted by any call; a returned text is valid until the next name_cache_put. */
#pragma once

#include "resolve/symbols/string_arena.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct name_cache_slot {
    uint64_t object, key, value;
    uint64_t twin; /* key of the entry whose text this one shares; 0: none */
    const char *text;
    uint32_t generation; /* of the text; 0: the slot is free */
};

struct name_cache {
    struct name_cache_slot *slots; /* a power of two */
    size_t count, max, used;
    struct string_arena texts;
};

/* At most about `slot_bytes` of slots and `text_bytes` of texts, but at least 16 slots and two texts of `text_max`.
 * Returns 0 or -ENOMEM. */
int name_cache_init(struct name_cache *a, size_t slot_bytes, size_t text_bytes, size_t text_max);
void name_cache_clear(struct name_cache *a);

/* NULL: not cached (any more). A text in the older half of the arena is copied to the newer one. */
const char *name_cache_get(struct name_cache *a, uint64_t object, uint64_t key, uint64_t *ret_value);
/* The cached copy, or NULL when out of memory. With a `twin` (the key of another entry of the same object, just
 * looked up or stored) that entry's text is shared. */
const char *name_cache_put(struct name_cache *a, uint64_t object, uint64_t key, uint64_t value, uint64_t twin,
                           const char *text);

static inline const char *name_cache_second(const char *text)
{
    return text + strlen(text) + 1;
}

size_t name_cache_bytes(const struct name_cache *a);
