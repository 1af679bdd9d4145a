/* The keys of the batches that were accepted recently, so that a sender's retry is recognised: a set that forgets its
 * oldest members, by age and by number. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Identifies a batch by its sender and content. */
struct batch_key {
    uint8_t bytes[16]; /* of a hash */
};

struct recent_keys;

/* Keeps at most `max` keys. 0 or -ENOMEM. */
int recent_keys_new(size_t max, struct recent_keys **ret);
void recent_keys_free(struct recent_keys *k);
DEFINE_FREEP(recent_keys)

bool recent_keys_has(const struct recent_keys *k, const struct batch_key *key);
/* Adds a key that is not in the set. `time_ns` must not be lower than in the call before. A full set forgets its oldest
 * key. */
void recent_keys_add(struct recent_keys *k, const struct batch_key *key, uint64_t time_ns);
/* Forgets the keys that were added with a time below `time_ns`. */
void recent_keys_forget(struct recent_keys *k, uint64_t time_ns);

size_t recent_keys_count(const struct recent_keys *k);
/* The time of the oldest key; UINT64_MAX: the set is empty. */
uint64_t recent_keys_oldest_ns(const struct recent_keys *k);
