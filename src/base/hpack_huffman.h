/* HPACK's Huffman code (RFC 7541, appendix B). Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Decodes `size` bytes. Writes the first `room` characters to `out`, and returns how many there are in all; -EBADMSG:
 * not a text in this code. */
int64_t hpack_huffman_decode(const uint8_t *data, size_t size, char *out, size_t room);
