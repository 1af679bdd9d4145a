/* UTF-8 as Unicode 15 defines it (table 3-7): no surrogates, no overlong forms. Names from symbol tables and /proc
 * may contain any bytes; the formats that Sonde writes require valid UTF-8. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length in bytes of the valid sequence at `text` (NUL-terminated), or 0 if it is invalid. The NUL itself counts
 * as one. */
size_t utf8_length(const char *text);

/* The character at `text` (NUL-terminated); U+FFFD where the sequence is invalid. */
uint32_t utf8_decode(const char *text);

/* Whether a character does not belong in a name, because a terminal or page takes it as a command: control characters
 * (C0, DEL, C1), separators of lines and paragraphs, and marks that change the direction of text. Names come from
 * foreign programs: every output replaces or escapes such characters. */
bool utf8_is_control(uint32_t c);
/* utf8_is_control for the character at `text` (NUL-terminated). False for the NUL, and where the sequence is invalid.
 */
bool utf8_at_control(const char *text);

/* U+FFFD, the replacement for a byte that is not UTF-8. */
#define UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* Encodes a code point as UTF-8, without a NUL; returns the number of bytes, at most 4. Invalid ones become U+FFFD. */
size_t utf8_encode(uint32_t c, char *out);
/* The same for a character of a name: utf8_is_control becomes '?', so that a line feed in it cannot split a line of
 * output. */
size_t utf8_put(uint32_t c, char *out);

/* The number of characters in `size` bytes of valid UTF-8. */
size_t utf8_count(const char *text, size_t size);
/* The rest of `text` (NUL-terminated, valid) behind its first `count` characters; its end if it has fewer. */
const char *utf8_skip(const char *text, size_t count);
