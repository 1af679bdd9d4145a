/* Reports which capabilities this process lacks, and the effect of each. */
#pragma once

#include <stddef.h>

/* A capability that Sonde uses, and the features that fail without it. Strings are static. */
struct privilege {
    const char *name, *cost;
};

#define PRIVILEGES_MAX 7

/* Writes the capabilities that this process does not have to `ret`; returns their number. */
size_t privileges_missing(struct privilege ret[PRIVILEGES_MAX]);

/* To be called when nothing could be attached: logs missing kernel features and capabilities, and what works without
 * them. */
void privileges_explain(void);
