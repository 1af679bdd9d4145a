/* The summary of a trace file as one JSON object; documented in sonde-trace(1). Durations are integers of nanoseconds,
 * and sums of them; nobody has to trust our division. */
#pragma once

#include "export/trace_summary_text.h"

int trace_summary_json_write(struct buf *out, const char *file, const struct trace_sums *sums,
                             const struct trace_percentiles *percentiles);
