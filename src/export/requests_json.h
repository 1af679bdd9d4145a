/* Requests as the JSON array of `sonde why --json` and /api/v1/requests:
 * [{"start_time_unix_nano","duration_ns","service","pid",
 * "method","route","status","cause","parts":[{"kind","ns","detail","stack"}]}]. Documented in docs/why.md. */
#pragma once

#include "base/buf.h"
#include "model/request.h"

/* 0, or the buffer's error. */
int requests_json_write(struct request *const *requests, size_t count, struct buf *out);

/* Appends the groups that the requests are examples of (request.group), in their order, as a member of an object:
 * `,"groups":[{"port","service","unit","method","route","cause","group"}]`; nothing for single requests. 0, or the
 * buffer's error. */
int requests_json_put_groups(struct request *const *requests, size_t count, struct buf *out);
