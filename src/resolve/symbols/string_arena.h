/* An arena for derived names (demangled, unpacked) that are needed again: two halves of fixed size, filled
 * alternately. When a half is full, the other one, with the older names, is emptied and filled next. A name stays
 * valid until at least `half_bytes` of newer names have been added, and nothing is freed individually. A user stores
 * the generation with the name, checks string_arena_alive() before use, and keeps an old name by adding it again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct string_arena {
    char *halves[2]; /* by generation & 1; allocated when first needed */
    size_t half_bytes;
    size_t used;         /* of the half being filled */
    uint32_t generation; /* 0: nothing was added yet; starts at 1 */
};

/* Copies `size` characters and adds a NUL; NULL when they exceed a half, or out of memory. */
const char *string_arena_add(struct string_arena *t, const char *text, size_t size);
void string_arena_clear(struct string_arena *t);
size_t string_arena_bytes(const struct string_arena *t); /* memory held */

/* `generation`: the value of t->generation when the text was added. */
static inline bool string_arena_alive(const struct string_arena *t, uint32_t generation)
{
    return generation && t->generation - generation <= 1;
}
static inline bool string_arena_old(const struct string_arena *t, uint32_t generation)
{
    return t->generation != generation;
}
