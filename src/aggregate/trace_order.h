/* Traces in the order of their ids, of which there may be more than memory holds: moments go to a file of their own
 * that has no name (in TMPDIR, else /var/tmp), of about a fifth of the trace file's size, and come back sorted. For
 * listing every trace. */
#pragma once

#include "base/cleanup.h"
#include "model/triton_trace.h"

struct trace_order;

int trace_order_new(struct trace_order **ret);
void trace_order_free(struct trace_order *o);
DEFINE_FREEP(trace_order)

/* Traces of a later `file` come after those of an earlier one. -errno of the disk. */
int trace_order_add(struct trace_order *o, uint64_t file, const struct triton_trace *trace);

/* After the last one was added: back to the first. */
int trace_order_rewind(struct trace_order *o);
/* 1 with the next trace (without texts), good until the next call; 0 at the end. */
int trace_order_next(struct trace_order *o, struct triton_trace *ret);
