/* UTF-8 as Unicode 15 defines it (table 3-7): no surrogates, no overlong forms. Names from symbol tables and /proc
 * may contain any bytes; the formats that Sonde writes require valid UTF-8. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Length in bytes of the valid sequence at `text` (NUL-terminated), or 0 if it is invalid. The NUL itself counts
 * as one. */
size_t utf8_length(const char *text);

/* U+FFFD, the replacement for a byte that is not UTF-8. */
#define UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* Encodes a code point as UTF-8, without a NUL; returns the number of bytes, at most 4. Invalid ones become U+FFFD. */
size_t utf8_encode(uint32_t c, char *out);
/* The same for a character of a name: control characters become '?', so that a line feed in it cannot split a line of
 * output. */
size_t utf8_put(uint32_t c, char *out);
