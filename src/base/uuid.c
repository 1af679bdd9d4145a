/* UUIDs; see uuid.h. */
#include "base/uuid.h"

#include "base/clock.h"

#include <string.h>
#include <sys/random.h>

static void set_version(uint8_t uuid[UUID_BYTES], uint8_t version)
{
    uuid[6] = (uint8_t)((uuid[6] & 0x0f) | version << 4);
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
}

void uuid_make(uint8_t ret[UUID_BYTES])
{
    const uint64_t now_ms = clock_unix_ns() / 1000000, other = clock_monotonic_ns();
    if (getrandom(ret, UUID_BYTES, GRND_NONBLOCK) != UUID_BYTES)
        memcpy(ret + UUID_BYTES - sizeof(other), &other, sizeof(other));
    for (int i = 0; i < 6; i++)
        ret[i] = (uint8_t)(now_ms >> (40 - 8 * i));
    set_version(ret, 7);
}

void uuid_of_hash(const unsigned char hash[SHA256_BYTES], uint8_t ret[UUID_BYTES])
{
    memcpy(ret, hash, UUID_BYTES);
    set_version(ret, 8);
}
