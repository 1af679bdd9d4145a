/* Sums up traces by frontend (HTTP or gRPC), model and version, in memory independent of their number, and keeps the
 * slowest. Durations and sums are exact integers; a trace contributes to each span whose two timestamps it has. */
#pragma once

#include "base/strings.h"
#include "trace/model/trace_summary.h"

struct trace_summary;

struct trace_summary_options {
    const struct strings *names; /* borrowed from the table of traces */
    bool percentiles;
    size_t slowest; /* how many of the slowest traces to keep */
};

int trace_summary_new(const struct trace_summary_options *options, struct trace_summary **ret);
void trace_summary_free(struct trace_summary *s);
DEFINE_FREEP(trace_summary)

/* Adds a trace that the table returned. 1: counted (for each frontend in trace->frontends); 0: not counted, except as a
 * loss; -ENOMEM. */
int trace_summary_add(struct trace_summary *s, const struct triton_trace *trace);

/* The following traces are from another file, with its own id space. */
void trace_summary_next_file(struct trace_summary *s);

/* The sums in display order; owned by `s`; nothing may be added to `s` afterwards. The caller fills in the flow. */
struct trace_sums *trace_summary_finish(struct trace_summary *s);
