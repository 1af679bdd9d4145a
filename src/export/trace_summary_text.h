/* The summary of a trace file as text: line for line what trace_summary.py prints, wherever that is right. Its lines
 * are documented in sonde-trace(1). */
#pragma once

#include "base/buf.h"
#include "base/strings.h"
#include "model/trace_summary.h"

#define TRACE_PERCENTILES_MAX 8

struct trace_percentiles {
    double values[TRACE_PERCENTILES_MAX]; /* 0 to 100 */
    size_t count;
};

/* The sums of one door (TRACE_HTTP or TRACE_GRPC); of all of them, HTTP stands first. */
int trace_summary_text_put_door(struct buf *out, const struct trace_sums *sums, int door,
                                const struct trace_percentiles *percentiles);
int trace_summary_text_put_slowest(struct buf *out, const struct trace_sums *sums);
int trace_summary_text_put_flow(struct buf *out, const struct trace_flow *flow);

/* One trace with its moments in the order of time (-t). */
int trace_summary_text_put_trace(struct buf *out, const struct triton_trace *trace, const struct strings *names);
