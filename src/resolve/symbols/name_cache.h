/* Names by two numbers (an object and a place in it), remembered within a bound: a table of two-way sets over
 * texts.h. A text is two strings, one behind the other; name_cache_second finds the second. Any answer may be
 * gone at the next question; a text that was just given holds until the next name_cache_put. */
#pragma once

#include "resolve/symbols/string_arena.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct name_cache_slot {
    uint64_t object, key, value;
    uint64_t twin; /* key of the answer whose text this shares; 0: none */
    const char *text;
    uint32_t generation; /* of the texts; 0: free */
};

struct name_cache {
    struct name_cache_slot *slots; /* a power of two */
    size_t count, max, used;
    struct string_arena texts;
};

/* At most about `slot_bytes` of slots and `text_bytes` of texts, but never less than 16 slots and two texts
 * of `text_max`. */
int name_cache_init(struct name_cache *a, size_t slot_bytes, size_t text_bytes, size_t text_max);
void name_cache_clear(struct name_cache *a);

/* NULL: not known (any more). A text that has grown old is taken over among the newer ones. */
const char *name_cache_get(struct name_cache *a, uint64_t object, uint64_t key, uint64_t *ret_value);
/* The text's copy, or NULL when memory is out. With a `twin` (the same object's answer of that key, just
 * asked for or put) the text is its, and is shared. */
const char *name_cache_put(struct name_cache *a, uint64_t object, uint64_t key, uint64_t value, uint64_t twin,
                           const char *text);

static inline const char *name_cache_second(const char *text)
{
    return text + strlen(text) + 1;
}

size_t name_cache_bytes(const struct name_cache *a);
