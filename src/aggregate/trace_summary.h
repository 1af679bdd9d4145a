/* Adds traces up by door, model and version, in memory that does not grow with their number, and keeps the slowest.
 * Every duration is the difference of two integers and every sum is an integer; a trace counts in those lines whose two
 * moments it has. */
#pragma once

#include "base/strings.h"
#include "model/trace_summary.h"

struct trace_summary;

struct trace_summary_options {
    const struct strings *names; /* borrowed: of the table of traces */
    bool percentiles;
    size_t slowest; /* how many to keep */
};

int trace_summary_new(const struct trace_summary_options *options, struct trace_summary **ret);
void trace_summary_free(struct trace_summary *s);
DEFINE_FREEP(trace_summary)

/* A trace as the table hands it on. 1: it counts (through the doors trace->doors), 0: it does not, and is counted as a
 * loss; -ENOMEM. */
int trace_summary_add(struct trace_summary *s, const struct triton_trace *trace);

/* The traces that follow are of another file, whose ids are its own. */
void trace_summary_next_file(struct trace_summary *s);

/* The sums in the order in which they are shown; owned by `s`, which is not added to any more. The flow is the caller's
 * to fill. */
struct trace_sums *trace_summary_finish(struct trace_summary *s);
