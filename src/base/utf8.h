/* UTF-8 as Unicode 15 defines it (table 3-7): no surrogates, no overlong forms. Names come from symbol tables
 * and /proc, where any bytes may stand; the formats we write do not forgive that. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Bytes of the valid sequence at `text` (NUL-terminated), or 0 when there is none. The NUL itself counts as
 * one. */
size_t utf8_length(const char *text);

/* U+FFFD, which stands for a byte that is not UTF-8. */
#define UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* A character of a name as UTF-8, without a NUL; how many bytes, 4 at most. '?' for a control character: no newline of
 * a name makes two lines of an output; U+FFFD for what is none. */
size_t utf8_put(uint32_t c, char *out);
