/* UUIDs (RFC 9562) as 16 bytes in the order of their text. */
#pragma once

#include "base/sha256.h"

#include <stdint.h>

#define UUID_BYTES 16

/* A new one of version 7: no two are the same, and later ones sort behind. */
void uuid_make(uint8_t ret[UUID_BYTES]);
/* The one of version 8 that has the first bits of this hash. */
void uuid_of_hash(const unsigned char hash[SHA256_BYTES], uint8_t ret[UUID_BYTES]);
