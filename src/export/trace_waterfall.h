/* One request as a text waterfall: a line for each time within it, with when it began, how long it took and a bar; what
 * lies within what is seen by the indentation. */
#pragma once

#include "base/buf.h"
#include "model/trace_request.h"

int trace_waterfall_write(struct buf *out, const struct trace_request *request, const struct strings *names);
