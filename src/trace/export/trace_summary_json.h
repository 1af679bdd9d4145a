/* The summary of a trace file as one JSON object, documented in sonde-trace(1). Durations are integer nanoseconds; sums
 * are included next to averages. */
#pragma once

#include "trace/export/trace_summary_text.h"

/* Appends the object. 0, or the buffer's error. */
int trace_summary_json_write(struct buf *out, const char *file, const struct trace_sums *sums,
                             const struct trace_percentiles *percentiles);
