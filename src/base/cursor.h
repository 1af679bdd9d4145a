/* The only way to read untrusted bytes (ELF, DWARF, recordings, /proc, protobuf): a position in a span that cannot
 * leave it. A read past the end returns 0 and sets `failed`; every later read then returns 0 too. Parse a whole
 * record, then check once. Borrows only: the bytes must outlive the cursor. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cursor {
    const uint8_t *data;
    size_t size;
    size_t position;
    bool failed;
};

static inline struct cursor cursor_make(const void *data, size_t size)
{
    return (struct cursor){.data = data, .size = size};
}

static inline size_t cursor_left(const struct cursor *c)
{
    return c->failed ? 0 : c->size - c->position;
}

/* `size` bytes, borrowed, or NULL. This and its callers below are inline, because call frame instructions are read
 * byte by byte, millions of them for a large program. */
static inline const void *cursor_bytes(struct cursor *c, size_t size)
{
    if (c->failed || size > c->size - c->position) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *p = c->data ? c->data + c->position : NULL; /* an empty span may have no data */
    c->position += size;
    return p;
}

/* Little-endian unsigned integers. */
static inline uint8_t cursor_u8(struct cursor *c)
{
    const uint8_t *p = (const uint8_t *)cursor_bytes(c, 1);
    return p ? *p : 0;
}

uint16_t cursor_u16(struct cursor *c);
uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);

/* LEB128 as in DWARF 5, section 7.6; more than 64 bits is a failure. */
uint64_t cursor_uleb128_long(struct cursor *c);
int64_t cursor_sleb128(struct cursor *c);

static inline uint64_t cursor_uleb128(struct cursor *c)
{
    if (c->failed || c->position == c->size || !c->data || c->data[c->position] & 0x80)
        return cursor_uleb128_long(c);
    return c->data[c->position++];
}

/* A NUL-terminated string that lies entirely inside the span, borrowed, or NULL. */
const char *cursor_string(struct cursor *c);

/* Whether the whole span, wherever the position is, has this text. */
bool cursor_is(struct cursor c, const char *text);

/* Moves to `position` (from the start); fails when that is outside. */
void cursor_seek(struct cursor *c, size_t position);
void cursor_skip(struct cursor *c, size_t size);

/* A cursor over the next `size` bytes, which are skipped in `c`. Failed when they do not exist. */
struct cursor cursor_sub(struct cursor *c, size_t size);
