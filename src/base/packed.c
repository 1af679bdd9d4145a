/* See packed.h. */
#include "base/packed.h"

#include <errno.h>
#include <stdlib.h>

unsigned packed_bits(uint32_t max)
{
    return max ? 32 - (unsigned)__builtin_clz(max) : 1;
}

static size_t words_of(size_t count, unsigned bits)
{
    return (count * bits + 63) / 64;
}

size_t packed_bytes(size_t count, unsigned bits)
{
    return words_of(count, bits) * sizeof(uint64_t);
}

int packed_init(struct packed *p, size_t count, unsigned bits)
{
    const size_t words = words_of(count, bits);
    *p = (struct packed){.words = calloc(words ? words : 1, sizeof(*p->words)), .bits = bits};
    return p->words ? 0 : -ENOMEM;
}

void packed_clear(struct packed *p)
{
    free(p->words);
    *p = (struct packed){0};
}
