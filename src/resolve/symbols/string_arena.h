/* Names that were made (demangled, unpacked) and will be wanted again: two halves of fixed size, filled one
 * after the other. When a half is full the other one, with the older names, is emptied and filled next, so
 * that a name lives until at least `half_bytes` of newer ones have come, and nothing is ever freed one by
 * one. Whoever remembers a name remembers its generation too, asks string_arena_alive() before use and takes a
 * living but old one over by adding it again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct string_arena {
    char *halves[2]; /* by generation & 1; made when first needed */
    size_t half_bytes;
    size_t used;         /* of the half being filled */
    uint32_t generation; /* 0: nothing was added yet; starts at 1 */
};

/* `size` characters and a NUL, copied; NULL when they are longer than a half or memory is out. */
const char *string_arena_add(struct string_arena *t, const char *text, size_t size);
void string_arena_clear(struct string_arena *t);
size_t string_arena_bytes(const struct string_arena *t); /* memory held */

/* `generation`: what t->generation was when the text was added. */
static inline bool string_arena_alive(const struct string_arena *t, uint32_t generation)
{
    return generation && t->generation - generation <= 1;
}
static inline bool string_arena_old(const struct string_arena *t, uint32_t generation)
{
    return t->generation != generation;
}
