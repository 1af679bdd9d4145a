/* The critical path of a request as text. */
#pragma once

#include "base/buf.h"
#include "model/request.h"

/* A line for each stretch in one thread, and one for its longest wait; nothing without a path. */
void why_path_put(const struct request *r, struct buf *out);
