/* What rights this process lacks, in words. */
#pragma once

#include <stddef.h>

/* A capability that Sonde uses, and what is not seen without it. Texts are static. */
struct privilege {
    const char *name, *cost;
};

#define PRIVILEGES_MAX 6

/* Those that this process does not have; how many. */
size_t privileges_missing(struct privilege ret[PRIVILEGES_MAX]);

/* After nothing could be attached: prints which rights or abilities of the kernel are missing, and what still works
 * without. */
void privileges_explain(void);
