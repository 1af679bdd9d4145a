/* See gzip.h. */
#include "gzip.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define GZIP 16 /* windowBits flag of zlib: gzip header instead of zlib's */
#define MEMORY_LEVEL                                                                                                   \
    6 /* memLevel of zlib: 4096 instead of 16384 symbols per Huffman code, because the tables of                       \
       * a packet differ */

static int reserve(struct otlp_packed *p, size_t capacity)
{
    if (capacity <= p->capacity)
        return 0;
    unsigned char *data = realloc(p->data, capacity);
    if (!data)
        return -ENOMEM;
    p->data = data;
    p->capacity = capacity;
    return 0;
}

static int pack_gzip(struct otlp_packed *p, unsigned level, size_t room, const void *data, size_t size,
                     size_t *ret_size)
{
    z_stream z = {0};
    if (size > UINT_MAX ||
        deflateInit2(&z, (int)level, Z_DEFLATED, 15 + GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    size_t capacity = deflateBound(&z, size);
    int r = reserve(p, room + capacity);
    if (r == 0) {
        z.next_in = (Bytef *)(uintptr_t)data;
        z.avail_in = (unsigned)size;
        z.next_out = p->data + room;
        z.avail_out = capacity < UINT_MAX ? (unsigned)capacity : UINT_MAX;
        r = deflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : -EIO;
        *ret_size = room + z.total_out;
    }
    deflateEnd(&z);
    return r;
}

static int pack_with_encoding(struct otlp_packed *p, const struct otlp_encoding *encoding, size_t room,
                              const void *data, size_t size, size_t *ret_size)
{
    const size_t capacity = encoding->bound(size);
    int r = reserve(p, room + capacity);
    if (r == 0)
        r = encoding->pack(data, size, p->data + room, capacity, ret_size);
    if (r == 0)
        *ret_size += room;
    return r;
}

int otlp_pack(struct otlp_packed *p, const struct otlp_encoding *encoding, unsigned gzip_level, size_t room,
              const void *data, size_t size, size_t *ret_size)
{
    if (encoding)
        return pack_with_encoding(p, encoding, room, data, size, ret_size);
    if (gzip_level)
        return pack_gzip(p, gzip_level, room, data, size, ret_size);
    int r = reserve(p, room + size);
    if (r < 0)
        return r;
    memcpy(p->data + room, data, size);
    *ret_size = room + size;
    return 0;
}

void otlp_packed_free(struct otlp_packed *p)
{
    free(p->data);
}

int otlp_unpack(const void *data, size_t size, void *ret_data, size_t max, size_t *ret_size)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data,
                  .avail_in = (unsigned)size,
                  .next_out = ret_data,
                  .avail_out = (unsigned)max};
    if (size > UINT_MAX || max > UINT_MAX)
        return -EBADMSG;
    if (inflateInit2(&z, 15 + GZIP) != Z_OK)
        return -ENOMEM;
    int r = inflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : -EBADMSG;
    if (r == 0)
        *ret_size = z.total_out;
    inflateEnd(&z);
    return r;
}
