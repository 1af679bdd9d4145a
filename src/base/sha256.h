/* SHA-256 (FIPS 180-4) of short texts. */
#pragma once

#include <stddef.h>

#define SHA256_BYTES 32

void sha256(const void *data, size_t size, unsigned char ret[SHA256_BYTES]);
