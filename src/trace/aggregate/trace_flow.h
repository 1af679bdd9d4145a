/* Selects the request whose data flow is shown: the one with the lowest id that is a child of another, together with
 * all descendants of its parent; or, if no request has a parent, the lowest id with a tensor (the rule of
 * trace_summary.py). Traces arrive once and in any order. Candidates are chosen when their records are added, and
 * copied when the table of traces returns them: parts that lie further apart than the table reaches are missing. */
#pragma once

#include "trace/aggregate/trace_table.h"
#include "trace/model/trace_summary.h"

#define TRACE_FLOW_NODES_MAX 4096
#define TRACE_FLOW_BYTES_MAX ((size_t)128 << 20)

struct trace_flow_finder;

/* Creates a finder. `names` is borrowed. */
int trace_flow_finder_new(const struct strings *names, struct trace_flow_finder **ret);
void trace_flow_finder_free(struct trace_flow_finder *f);
DEFINE_FREEP(trace_flow_finder)

/* Call for every record that is added to the table. */
void trace_flow_see(struct trace_flow_finder *f, const struct triton_record *record);
/* Call for every trace that the table returns. -ENOMEM. */
int trace_flow_take(struct trace_flow_finder *f, const struct trace_table *table, const struct triton_trace *trace);

/* The selected flow, with its nodes ordered by id; owned by `f`. `ret_dropped`: nodes and activities beyond the
 * bounds. */
struct trace_flow trace_flow_finish(struct trace_flow_finder *f, uint64_t *ret_dropped);
