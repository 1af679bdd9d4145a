/* The text of a peer's address. */
#pragma once

#include <stddef.h>

/* Writes "10.0.0.5:5432", "[::1]:80"; without its port where that is 0; "" for other families than IP. Returns `out`.
 */
const char *peer_text(unsigned family, const unsigned char *address, unsigned port, char *out, size_t size);
