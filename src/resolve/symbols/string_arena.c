/* An arena of names in two halves; see string_arena.h. */
#include "resolve/symbols/string_arena.h"

#include <stdlib.h>
#include <string.h>

const char *string_arena_add(struct string_arena *t, const char *text, size_t size)
{
    if (size >= t->half_bytes)
        return NULL;
    if (!t->generation || t->half_bytes - t->used < size + 1) {
        char **half = &t->halves[(t->generation + 1) & 1];
        if (!*half)
            *half = malloc(t->half_bytes);
        if (!*half)
            return NULL;
        t->generation++;
        t->used = 0;
    }
    char *copy = t->halves[t->generation & 1] + t->used;
    memmove(copy, text, size);
    copy[size] = '\0';
    t->used += size + 1;
    return copy;
}

void string_arena_clear(struct string_arena *t)
{
    for (int i = 0; i < 2; i++) {
        free(t->halves[i]);
        t->halves[i] = NULL;
    }
    t->used = 0;
    t->generation = 0;
}

size_t string_arena_bytes(const struct string_arena *t)
{
    return (t->halves[0] ? t->half_bytes : 0) + (t->halves[1] ? t->half_bytes : 0);
}
