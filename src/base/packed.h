/* An array of numbers of one width in bits, for large tables of small numbers. Not thread-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct packed {
    uint64_t *words; /* owned */
    unsigned bits;   /* of each number: 1 to 32 */
};

/* The least width that holds the numbers 0 to `max`. */
unsigned packed_bits(uint32_t max);

/* Allocates `count` zeros of `bits` bits each; freed by packed_clear. -ENOMEM. */
int packed_init(struct packed *p, size_t count, unsigned bits);
void packed_clear(struct packed *p);

/* Memory of `count` numbers. */
size_t packed_bytes(size_t count, unsigned bits);

/* `i` must be below the count. packed_set stores the low `bits` bits of `value`. */
static inline uint32_t packed_get(const struct packed *p, size_t i)
{
    const size_t at = i * p->bits, word = at / 64, shift = at % 64;
    uint64_t value = p->words[word] >> shift;
    if (shift + p->bits > 64)
        value |= p->words[word + 1] << (64 - shift);
    return (uint32_t)(value & ((1ull << p->bits) - 1));
}

static inline void packed_set(struct packed *p, size_t i, uint32_t value)
{
    const size_t at = i * p->bits, word = at / 64, shift = at % 64;
    const uint64_t mask = (1ull << p->bits) - 1, wanted = value & mask;
    p->words[word] = (p->words[word] & ~(mask << shift)) | wanted << shift;
    if (shift + p->bits > 64)
        p->words[word + 1] = (p->words[word + 1] & ~(mask >> (64 - shift))) | wanted >> (64 - shift);
}
