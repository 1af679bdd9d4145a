/* Routes, and abnormal requests, as tables: what `sonde requests` prints. Names that observed programs chose are
 * cleaned of control characters. */
#pragma once

#include "base/buf.h"
#include "model/request.h"
#include "model/request_route.h"

#include <stddef.h>
#include <stdint.h>

/* Appends one line a route, with a heading that names the period, and what the signs mean. */
void requests_text_put_routes(const struct request_route *routes, size_t count, uint64_t last_ns, struct buf *out);
/* Appends one line a group (request.group of its example), likewise. */
void requests_text_put_groups(struct request *const *examples, size_t count, uint64_t last_ns, struct buf *out);
/* Appends one line a request, with a heading that names the period. */
void requests_text_put_abnormal(struct request *const *requests, size_t count, uint64_t last_ns, struct buf *out);
