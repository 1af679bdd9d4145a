/* The place of most of some CPU samples: counts code places (code_place.h) by function, by line and by the functions
 * that the function ran. Bounded: when there are very many different places, the later ones count for their function
 * only. Pure. */
#pragma once

#include "diagnose/code/code_place.h"

#define CODE_TALLY_PLACES 64

struct code_tally {
    size_t samples, count;
    struct code_tally_place {
        struct code_place place;
        size_t samples;
    } places[CODE_TALLY_PLACES];
};

static inline void code_tally_begin(struct code_tally *t)
{
    t->samples = t->count = 0;
}

void code_tally_add_many(struct code_tally *t, const struct code_place *place, size_t samples);

static inline void code_tally_add(struct code_tally *t, const struct code_place *place)
{
    code_tally_add_many(t, place, 1);
}

/* Sets `ret` to the function with the most samples, the most frequent of its lines, and the most frequent function that
 * it ran there. Returns its number of samples; 0 if there are no samples. */
size_t code_tally_most(const struct code_tally *t, struct code_place *ret);
