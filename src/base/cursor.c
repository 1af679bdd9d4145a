/* Bounds-checked reading of untrusted bytes; see cursor.h. */
#include "base/cursor.h"

#include <endian.h>
#include <string.h>

uint16_t cursor_u16(struct cursor *c)
{
    uint16_t v = 0;
    const void *p = cursor_bytes(c, sizeof(v));
    if (p)
        memcpy(&v, p, sizeof(v));
    return le16toh(v);
}

uint32_t cursor_u32(struct cursor *c)
{
    uint32_t v = 0;
    const void *p = cursor_bytes(c, sizeof(v));
    if (p)
        memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

uint64_t cursor_u64(struct cursor *c)
{
    uint64_t v = 0;
    const void *p = cursor_bytes(c, sizeof(v));
    if (p)
        memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

uint64_t cursor_uleb128_long(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = cursor_u8(c);
        if (c->failed)
            return 0;
        uint64_t bits = byte & 0x7F;
        if (shift >= 64 ? bits != 0 : shift == 63 && bits > 1) {
            c->failed = true;
            return 0;
        }
        if (shift < 64)
            value |= bits << shift;
        if (!(byte & 0x80))
            return value;
    }
}

int64_t cursor_sleb128(struct cursor *c)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = cursor_u8(c);
        uint8_t bits = byte & 0x7F;
        if (c->failed || shift >= 70 || (shift == 63 && bits != 0 && bits != 0x7F)) {
            c->failed = true;
            return 0;
        }
        if (shift < 64)
            value |= (uint64_t)bits << shift;
        shift += 7;
    } while (byte & 0x80);
    if (shift < 64 && (byte & 0x40))
        value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
}

const char *cursor_string(struct cursor *c)
{
    if (c->failed || c->position == c->size) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *start = c->data + c->position;
    const uint8_t *end = memchr(start, '\0', c->size - c->position);
    if (!end) {
        c->failed = true;
        return NULL;
    }
    c->position += end - start + 1;
    return (const char *)start;
}

bool cursor_is(struct cursor c, const char *text)
{
    return c.size == strlen(text) && (!c.size || memcmp(c.data, text, c.size) == 0);
}

void cursor_seek(struct cursor *c, size_t position)
{
    if (c->failed || position > c->size)
        c->failed = true;
    else
        c->position = position;
}

void cursor_skip(struct cursor *c, size_t size)
{
    cursor_bytes(c, size);
}

struct cursor cursor_sub(struct cursor *c, size_t size)
{
    const void *p = cursor_bytes(c, size);
    return (struct cursor){.data = p, .size = c->failed ? 0 : size, .failed = c->failed};
}
