/* Decompresses the body of a request. The bytes are untrusted: a small body may be a bomb. */
#pragma once

#include "base/buf.h"

#include <stddef.h>

/* Appends the decompressed `data` to `out`. `encoding`: the value of Content-Encoding, NULL for none. 0;
 * -EOPNOTSUPP: another encoding than gzip, zstd or identity; -EFBIG: more than `max` bytes; -EBADMSG: damaged;
 * -ENOMEM. */
int inflate_body(struct buf *out, const char *encoding, const void *data, size_t size, size_t max);
