/* A cache of names by two numbers; see name_cache.h. */
#include "resolve/symbols/name_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SLOTS_MIN   16
#define SLOTS_FIRST 1024

int name_cache_init(struct name_cache *a, size_t slot_bytes, size_t text_bytes, size_t text_max)
{
    *a = (struct name_cache){.max = SLOTS_MIN};
    while (a->max * 2 * sizeof(*a->slots) <= slot_bytes)
        a->max *= 2;
    a->texts.half_bytes = text_bytes / 2 > text_max ? text_bytes / 2 : text_max;
    a->count = a->max < SLOTS_FIRST ? a->max : SLOTS_FIRST;
    a->slots = calloc(a->count, sizeof(*a->slots));
    return a->slots ? 0 : -ENOMEM;
}

void name_cache_clear(struct name_cache *a)
{
    free(a->slots);
    a->slots = NULL;
    a->count = 0;
    string_arena_clear(&a->texts);
}

/* The first of the two slots of an entry's set. */
static struct name_cache_slot *set_of(struct name_cache_slot *slots, size_t count, uint64_t object, uint64_t key)
{
    uint64_t both[2] = {object, key};
    return &slots[XXH3_64bits(both, sizeof(both)) & (count - 1) & ~(size_t)1];
}

/* Inserts into the first slot of a set; its previous content moves to the second. */
static void place(struct name_cache_slot *set, const struct name_cache_slot *fresh)
{
    set[1] = set[0];
    set[0] = *fresh;
}

/* Doubles the slots when they fill up and the limit allows it. A failure is harmless. */
static void grow(struct name_cache *a)
{
    if (a->used < a->count / 2 || a->count >= a->max)
        return;
    size_t count = a->count * 2;
    struct name_cache_slot *slots = calloc(count, sizeof(*slots));
    if (!slots)
        return;
    for (size_t i = a->count; i-- > 0;) /* second slots before first ones, to keep their order */
        if (string_arena_alive(&a->texts, a->slots[i].generation))
            place(set_of(slots, count, a->slots[i].object, a->slots[i].key), &a->slots[i]);
    free(a->slots);
    a->slots = slots;
    a->count = count;
    a->used = 0;
}

/* The slot of an entry; NULL when it is not cached. */
static struct name_cache_slot *find_slot(struct name_cache *a, uint64_t object, uint64_t key)
{
    struct name_cache_slot *set = set_of(a->slots, a->count, object, key);
    for (int i = 0; i < 2; i++)
        if (set[i].object == object && set[i].key == key && string_arena_alive(&a->texts, set[i].generation))
            return &set[i];
    return NULL;
}

/* The same, for a lookup by the caller: moves the entry to the first slot. Invalidates slots returned earlier. */
static struct name_cache_slot *find_and_promote(struct name_cache *a, uint64_t object, uint64_t key)
{
    struct name_cache_slot *set = set_of(a->slots, a->count, object, key), *slot = find_slot(a, object, key);
    if (slot != &set[1])
        return slot;
    struct name_cache_slot first = *slot;
    place(set, &first);
    return set;
}

/* Without the last NUL. */
static size_t text_pair_bytes(const char *text)
{
    const char *second = name_cache_second(text);
    return (size_t)(second - text) + strlen(second);
}

/* Makes sure that the text is in the newer half: that of its twin if that is there, else a copy. */
static bool freshen(struct name_cache *a, struct name_cache_slot *slot)
{
    if (!string_arena_old(&a->texts, slot->generation))
        return true;
    struct name_cache_slot *twin = slot->twin ? find_slot(a, slot->object, slot->twin) : NULL;
    if (!twin || string_arena_old(&a->texts, twin->generation)) {
        const char *copy = string_arena_add(&a->texts, slot->text, text_pair_bytes(slot->text));
        if (!copy)
            return false;
        slot->text = copy;
        slot->generation = a->texts.generation;
    }
    if (twin && string_arena_old(&a->texts, twin->generation)) {
        twin->text = slot->text;
        twin->generation = slot->generation;
    } else if (twin) {
        slot->text = twin->text;
        slot->generation = twin->generation;
    }
    return true;
}

const char *name_cache_get(struct name_cache *a, uint64_t object, uint64_t key, uint64_t *ret_value)
{
    struct name_cache_slot *slot = find_and_promote(a, object, key);
    if (!slot || !freshen(a, slot))
        return NULL;
    *ret_value = slot->value;
    return slot->text;
}

const char *name_cache_put(struct name_cache *a, uint64_t object, uint64_t key, uint64_t value, uint64_t twin,
                           const char *text)
{
    grow(a);
    struct name_cache_slot fresh = {.object = object, .key = key, .value = value, .twin = twin};
    struct name_cache_slot *shared = twin ? find_and_promote(a, object, twin) : NULL;
    fresh.text = shared && !string_arena_old(&a->texts, shared->generation)
                     ? shared->text
                     : string_arena_add(&a->texts, text, text_pair_bytes(text));
    if (!fresh.text)
        return NULL;
    fresh.generation = a->texts.generation;
    struct name_cache_slot *known = find_and_promote(a, object, key);
    if (known) {
        *known = fresh;
    } else {
        place(set_of(a->slots, a->count, object, key), &fresh);
        a->used++;
    }
    return fresh.text;
}

size_t name_cache_bytes(const struct name_cache *a)
{
    return a->count * sizeof(*a->slots) + string_arena_bytes(&a->texts);
}
