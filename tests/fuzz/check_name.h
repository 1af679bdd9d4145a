/* Invariants of any name read from a process: UTF-8 without control characters. */
#pragma once

#include "base/utf8.h"

#include <stdlib.h>

static inline void check_name(const char *text)
{
    for (size_t n; *text; text += n) {
        n = utf8_length(text);
        if (n == 0 || (unsigned char)*text < 0x20)
            abort();
    }
}
