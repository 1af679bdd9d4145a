/* A decoder of HPACK, HTTP/2's compression of header fields (RFC 7541), for an observer: it keeps the few fields that
 * requests are described by, and of all others only the size. It also works from the middle of a connection on: indices
 * count from the newest entry of the table, so that entries inserted since are known, and older ones are said to be
 * unknown. Pure; not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HPACK_VALUE_MAX   160   /* bytes that are kept of a value */
#define HPACK_TABLE_MAX   16384 /* limit of the table that is followed: of larger ones, old entries are unknown */
#define HPACK_TABLE_START 4096  /* limit of a new connection's table */

enum hpack_name {
    HPACK_OTHER,
    HPACK_METHOD,
    HPACK_PATH,
    HPACK_STATUS,
    HPACK_CONTENT_TYPE,
    HPACK_GRPC_STATUS,
    HPACK_UNKNOWN, /* the name is in an entry that was inserted before the decoder began */
    HPACK_NAMES
};

/* One field, borrowed until the next call. Of HPACK_OTHER only the size is known. */
struct hpack_field {
    enum hpack_name name;
    bool has_value; /* false: not known */
    uint32_t size;  /* of name and value, in bytes; of a name that is not known: of the value */
    uint32_t name_size;
    size_t value_size; /* of the value; at most HPACK_VALUE_MAX bytes of it are there */
    const char *value;
};

struct hpack_entry;

/* Of one direction of one connection. */
struct hpack_decoder {
    struct hpack_entry *entries; /* a ring; NULL: none so far */
    uint32_t room, count, newest;
    uint32_t size, limit; /* as HPACK counts them: 32 bytes more for each entry */
    bool is_joined;       /* entries were inserted before */
    size_t bytes;         /* memory held */
};

/* Initialises a decoder that holds nothing. `is_joined`: the connection had header fields before. */
void hpack_decoder_init(struct hpack_decoder *d, bool is_joined);
void hpack_decoder_clear(struct hpack_decoder *d);

/* Blocks were missed: all older entries are unknown from here on. */
void hpack_decoder_lose(struct hpack_decoder *d);

/* Decodes a block and calls `take` for each field. -EBADMSG: the block is malformed; the decoder has then lost the
 * entries (hpack_decoder_lose); -ENOMEM: the same. Fields before the error have been given to `take`. */
int hpack_decode(struct hpack_decoder *d, const uint8_t *block, size_t size,
                 void (*take)(void *context, const struct hpack_field *field), void *context);
