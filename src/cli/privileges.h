/* What rights this process lacks, in words. */
#pragma once

#include <stddef.h>

/* "CAP_BPF, CAP_PERFMON": those that Sonde uses and this process does not have; "" when none is missing. Returns `out`. */
const char *privileges_missing(char *out, size_t size);

/* After nothing could be attached: prints which rights or abilities of the kernel are missing, and what still works without. */
void privileges_explain(void);
