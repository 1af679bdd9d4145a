/* The set of recent keys: a ring in order of time, and a hash table of places in the ring. See recent_keys.h. */
#include "server/recent_keys.h"

#include <errno.h>
#include <string.h>

struct entry {
    struct batch_key key;
    uint64_t time_ns;
};

struct recent_keys {
    size_t max, first, count; /* of the ring */
    struct entry *ring;
    size_t slots;    /* a power of two, at least twice `max` */
    uint32_t *table; /* 1 + place in the ring, 0: empty; linear probing */
};

int recent_keys_new(size_t max, struct recent_keys **ret)
{
    _cleanup_(recent_keys_freep) struct recent_keys *k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    k->max = max;
    for (k->slots = 16; k->slots < 2 * max;)
        k->slots *= 2;
    k->ring = calloc(max, sizeof(*k->ring));
    k->table = calloc(k->slots, sizeof(*k->table));
    if (!k->ring || !k->table)
        return -ENOMEM;
    *ret = take_ptr(k);
    return 0;
}

void recent_keys_free(struct recent_keys *k)
{
    if (!k)
        return;
    free(k->ring);
    free(k->table);
    free(k);
}

/* The bytes are a hash already. */
static size_t home_of(const struct recent_keys *k, const struct batch_key *key)
{
    uint64_t value;
    memcpy(&value, key->bytes, sizeof(value));
    return value & (k->slots - 1);
}

static const struct batch_key *key_in_slot(const struct recent_keys *k, size_t slot)
{
    return &k->ring[k->table[slot] - 1].key;
}

/* The slot of the key, or the empty one where it belongs. */
static size_t find_slot(const struct recent_keys *k, const struct batch_key *key)
{
    size_t slot = home_of(k, key);
    while (k->table[slot] && memcmp(key_in_slot(k, slot), key, sizeof(*key)) != 0)
        slot = (slot + 1) & (k->slots - 1);
    return slot;
}

bool recent_keys_has(const struct recent_keys *k, const struct batch_key *key)
{
    return k->table[find_slot(k, key)] != 0;
}

/* Empties a slot and moves back the entries behind it that the gap would hide. */
static void empty_slot(struct recent_keys *k, size_t gap)
{
    const size_t mask = k->slots - 1;
    for (size_t slot = (gap + 1) & mask; k->table[slot]; slot = (slot + 1) & mask) {
        const size_t home = home_of(k, key_in_slot(k, slot));
        if (((slot - home) & mask) < ((slot - gap) & mask))
            continue;
        k->table[gap] = k->table[slot];
        gap = slot;
    }
    k->table[gap] = 0;
}

static void forget_first(struct recent_keys *k)
{
    empty_slot(k, find_slot(k, &k->ring[k->first].key));
    k->first = (k->first + 1) % k->max;
    k->count--;
}

void recent_keys_add(struct recent_keys *k, const struct batch_key *key, uint64_t time_ns)
{
    if (k->count == k->max)
        forget_first(k);
    const size_t place = (k->first + k->count++) % k->max;
    k->ring[place] = (struct entry){*key, time_ns};
    k->table[find_slot(k, key)] = (uint32_t)place + 1;
}

void recent_keys_forget(struct recent_keys *k, uint64_t time_ns)
{
    while (k->count && k->ring[k->first].time_ns < time_ns)
        forget_first(k);
}

size_t recent_keys_count(const struct recent_keys *k)
{
    return k->count;
}

uint64_t recent_keys_oldest_ns(const struct recent_keys *k)
{
    return k->count ? k->ring[k->first].time_ns : UINT64_MAX;
}
