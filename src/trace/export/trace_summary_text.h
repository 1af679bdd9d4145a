/* The summary of a trace file as text, line by line as trace_summary.py prints it, except where that is wrong. The
 * lines are documented in sonde-trace(1). Functions append to `out` and return 0 or an error of the buffer. */
#pragma once

#include "base/buf.h"
#include "base/strings.h"
#include "trace/model/trace_summary.h"

#define TRACE_PERCENTILES_MAX 8

struct trace_percentiles {
    double values[TRACE_PERCENTILES_MAX]; /* 0 to 100 */
    size_t count;
};

/* Sums of requests through one front end, TRACE_HTTP or TRACE_GRPC; HTTP is printed first. */
int trace_summary_text_put_frontend(struct buf *out, const struct trace_sums *sums, int frontend,
                                    const struct trace_percentiles *percentiles);
int trace_summary_text_put_slowest(struct buf *out, const struct trace_sums *sums);
int trace_summary_text_put_flow(struct buf *out, const struct trace_flow *flow);

/* One trace with its timestamps in time order (-t). */
int trace_summary_text_put_trace(struct buf *out, const struct triton_trace *trace, const struct strings *names);
