/* Base64 (RFC 4648, section 4), with padding. */
#pragma once

#include "base/buf.h"

void base64_put(struct buf *out, const void *data, size_t size);

/* Appends the bytes that `text` stands for. Takes the alphabet for URLs (section 5), too, and text without padding. 0;
 * -EINVAL: it is not base64; or the error of `to`. */
int base64_get(struct buf *to, const char *text, size_t size);
