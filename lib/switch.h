/* SONDE_PROBES=off in the environment disables all USDT probes and published contexts of libsonde. For sandboxes that
 * kill a process for a system call instead of failing it, which cannot be detected by trying. */
#pragma once

#include <stdlib.h>
#include <string.h>

static inline int sonde_switched_off(void)
{
    const char *value = getenv("SONDE_PROBES");
    return value && strcmp(value, "off") == 0;
}
