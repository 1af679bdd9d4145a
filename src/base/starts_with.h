/* Whether a text begins with a prefix. */
#pragma once

#include <stdbool.h>
#include <string.h>

static inline bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}
