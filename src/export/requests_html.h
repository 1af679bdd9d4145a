/* Requests as one self-contained HTML file: web/requests.html with the JSON of /api/v1/requests in place of the
 * placeholder. */
#pragma once

#include "base/buf.h"
#include "model/coverage.h"
#include "model/request.h"

#include <stddef.h>

/* 0, or the buffer's error. */
int requests_html_write(struct request *const *requests, size_t count, const struct coverage *coverage,
                        struct buf *out);
