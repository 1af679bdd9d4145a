/* Finds the request whose data flow is shown: the one of the lowest id that is a child of another, with all that
 * descends from its parent; or, where nothing has a parent, the lowest id with a tensor (the rule of trace_summary.py).
 * The traces come once and in any order, so what may belong to it is decided when its records are seen, and it is kept
 * when the table of traces hands it on: parts that lie further apart than the table reaches are missing. */
#pragma once

#include "aggregate/trace_table.h"
#include "model/trace_summary.h"

#define TRACE_FLOW_NODES_MAX 4096
#define TRACE_FLOW_BYTES_MAX ((size_t)128 << 20)

struct trace_flow_finder;

/* `names` is borrowed. */
int trace_flow_finder_new(const struct strings *names, struct trace_flow_finder **ret);
void trace_flow_finder_free(struct trace_flow_finder *f);
DEFINE_FREEP(trace_flow_finder)

/* Every record, when it is put into the table. */
void trace_flow_see(struct trace_flow_finder *f, const struct triton_record *record);
/* Every trace, when the table hands it on. -ENOMEM. */
int trace_flow_take(struct trace_flow_finder *f, const struct trace_table *table, const struct triton_trace *trace);

/* What was found, with the boxes in the order of their ids; owned by `f`. `ret_dropped`: parts that found no room. */
struct trace_flow trace_flow_finish(struct trace_flow_finder *f, uint64_t *ret_dropped);
