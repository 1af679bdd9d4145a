/* Where processes whose memory grows had their latest page faults: a ring of samples. Bounded: the oldest samples go
 * first, and so do places that no sample has. */
#pragma once

#include "diagnose/code/code_place.h"

#include <stddef.h>
#include <stdint.h>

#define GROWN_SAMPLES 1024
#define GROWN_PLACES  128

struct grown_sample {
    uint64_t time_ns;
    uint32_t pid; /* 0: none */
    uint32_t faults;
    uint16_t place; /* GROWN_PLACES: there was no room for it */
};

/* Zeroed: none. */
struct grown_places {
    size_t next;
    struct grown_sample samples[GROWN_SAMPLES];
    uint32_t uses[GROWN_PLACES]; /* by samples */
    struct code_place places[GROWN_PLACES];
};

void grown_places_add(struct grown_places *g, uint64_t time_ns, uint32_t pid, uint64_t faults,
                      const struct code_place *place);

/* Sets `ret` to the function of the program's own code that had most page faults of process `pid` since `since_ns`,
 * with its most frequent line; if no stack has own code, to the innermost functions. Returns its share of all page
 * faults of the process in percent, at least 1; 0 if there are no samples. */
unsigned grown_places_most(const struct grown_places *g, uint32_t pid, uint64_t since_ns, struct code_place *ret);
