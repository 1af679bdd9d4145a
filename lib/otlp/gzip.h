/* gzip of packets, and of what is answered to them; other encodings by whoever brings them. */
#pragma once

#include "transport.h"

#include <stddef.h>

struct otlp_packed {
    unsigned char *data; /* kept for the next packet */
    size_t capacity;
};

/* Makes p->data what is sent of a packet: `room` bytes for whoever asks, then the packet, in the encoding or, where
 * that is NULL, with gzip of that level (1 to 9) or, with 0, as it is. *ret_size: of both. -ENOMEM; -EIO. */
int otlp_pack(struct otlp_packed *p, const struct otlp_encoding *encoding, unsigned gzip_level, size_t room,
              const void *data, size_t size, size_t *ret_size);
void otlp_packed_free(struct otlp_packed *p);

/* gzip from anybody: -EBADMSG for what is none, or would be more than `max` bytes. -ENOMEM. */
int otlp_unpack(const void *data, size_t size, void *ret_data, size_t max, size_t *ret_size);
