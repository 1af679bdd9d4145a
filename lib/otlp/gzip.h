/* gzip for packets and responses; other encodings are passed in by the caller. */
#pragma once

#include "transport.h"

#include <stddef.h>

struct otlp_packed {
    unsigned char *data; /* reused for the next packet */
    size_t capacity;
};

/* Encodes a packet into p->data: `room` bytes for the caller's prefix, then the packet, encoded with `encoding`, or
 * if that is NULL with gzip of that level (1 to 9), or for level 0 unchanged. *ret_size is the total size. -ENOMEM;
 * -EIO. */
int otlp_pack(struct otlp_packed *p, const struct otlp_encoding *encoding, unsigned gzip_level, size_t room,
              const void *data, size_t size, size_t *ret_size);
void otlp_packed_free(struct otlp_packed *p);

/* Decompresses untrusted gzip data. -EBADMSG: invalid, or larger than `max` bytes. -ENOMEM. */
int otlp_unpack(const void *data, size_t size, void *ret_data, size_t max, size_t *ret_size);
