/* The types of samples that a configuration asks for: what the windows and the profile export expect from the start. */
#pragma once

#include "config/config.h"
#include "model/sample_type.h"

#include <stddef.h>
#include <stdint.h>

#define SAMPLED_TYPES_MAX 8

struct sampled_type {
    const struct sample_type *type;
    uint64_t period; /* sampling period in the type's unit; 0: nothing is sampled, all is recorded */
};

/* Fills `ret`, each type once; returns their number. CPU time is among them even if it is not sampled: it is queried by
 * default. */
size_t sampled_types(const struct config *config, struct sampled_type ret[SAMPLED_TYPES_MAX]);
