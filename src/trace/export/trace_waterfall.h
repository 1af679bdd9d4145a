/* One request as a text waterfall: a line per interval with its start, duration and a bar; indentation shows nesting.
 */
#pragma once

#include "base/buf.h"
#include "trace/model/trace_request.h"

/* 0, -ENOMEM, or the buffer's error. */
int trace_waterfall_write(struct buf *out, const struct trace_request *request, const struct strings *names);
