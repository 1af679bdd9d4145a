/* A set of hashes with open addressing; see known_rows.h. */
#include "server/known_rows.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

struct known_rows {
    pthread_mutex_t lock;
    uint64_t seed;           /* random: senders choose hashes, and must not choose slots */
    size_t max, count, mask; /* of the slots, at most half of which have members */
    uint64_t *slots;         /* 0: empty */
};

int known_rows_new(size_t max, struct known_rows **ret)
{
    size_t size = 2;
    while (size < 2 * max)
        size *= 2;
    _cleanup_free_ struct known_rows *k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    if (getrandom(&k->seed, sizeof(k->seed), 0) != sizeof(k->seed))
        return -errno;
    k->slots = calloc(size, sizeof(*k->slots));
    if (!k->slots)
        return -ENOMEM;
    k->max = max;
    k->mask = size - 1;
    pthread_mutex_init(&k->lock, NULL);
    *ret = take_ptr(k);
    return 0;
}

void known_rows_free(struct known_rows *k)
{
    if (!k)
        return;
    pthread_mutex_destroy(&k->lock);
    free(k->slots);
    free(k);
}

uint64_t known_rows_key(enum table table, uint16_t day, uint64_t hash)
{
    return XXH3_64bits_withSeed(&hash, sizeof(hash), (uint64_t)table << 16 | day) | 1; /* not 0 */
}

/* The slot that has the key, or where it belongs. */
static uint64_t *find_slot(struct known_rows *k, uint64_t key)
{
    size_t i = XXH3_64bits_withSeed(&key, sizeof(key), k->seed) & k->mask;
    while (k->slots[i] && k->slots[i] != key)
        i = (i + 1) & k->mask;
    return &k->slots[i];
}

bool known_rows_has(struct known_rows *k, uint64_t key)
{
    pthread_mutex_lock(&k->lock);
    const bool has = *find_slot(k, key);
    pthread_mutex_unlock(&k->lock);
    return has;
}

static void forget_all(struct known_rows *k)
{
    memset(k->slots, 0, (k->mask + 1) * sizeof(*k->slots));
    k->count = 0;
}

void known_rows_add(struct known_rows *k, const uint64_t *keys, size_t count)
{
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < count; i++) {
        uint64_t *slot = find_slot(k, keys[i]);
        if (*slot)
            continue;
        if (k->count == k->max) {
            forget_all(k);
            slot = find_slot(k, keys[i]);
        }
        *slot = keys[i];
        k->count++;
    }
    pthread_mutex_unlock(&k->lock);
}

void known_rows_forget(struct known_rows *k)
{
    pthread_mutex_lock(&k->lock);
    forget_all(k);
    pthread_mutex_unlock(&k->lock);
}
