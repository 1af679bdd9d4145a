/* Sorts traces by id with bounded memory: they are written to unnamed temporary files (in TMPDIR, else /var/tmp) of
 * about a fifth of the trace file's size, and read back in order. For listing every trace. */
#pragma once

#include "base/cleanup.h"
#include "trace/model/triton_trace.h"

struct trace_order;

int trace_order_new(struct trace_order **ret);
void trace_order_free(struct trace_order *o);
DEFINE_FREEP(trace_order)

/* Adds a trace. Traces of a later `file` sort after traces of an earlier one. -errno of the disk. */
int trace_order_add(struct trace_order *o, uint64_t file, const struct triton_trace *trace);

/* Sorts after the last trace was added, and starts over at the first. */
int trace_order_rewind(struct trace_order *o);
/* Returns 1 with the next trace (without texts), valid until the next call; 0 at the end. */
int trace_order_next(struct trace_order *o, struct triton_trace *ret);
