/* Base64 (RFC 4648, section 4), with padding. */
#pragma once

#include "base/buf.h"

void base64_put(struct buf *out, const void *data, size_t size);
