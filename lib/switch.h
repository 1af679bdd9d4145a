/* Whether who runs the program wants nothing of it seen from outside: SONDE_PROBES=off in the environment. For
 * sandboxes that kill for a system call rather than refuse it, which cannot be found out by trying. */
#pragma once

#include <stdlib.h>
#include <string.h>

static inline int sonde_switched_off(void)
{
    const char *value = getenv("SONDE_PROBES");
    return value && strcmp(value, "off") == 0;
}
