/* An output format for traces. Traces are converted one by one, so files may be of any size. Each format has its own
 * file and an entry in the array in trace_format.c. */
#pragma once

#include "base/buf.h"
#include "trace/model/trace_spans.h"

struct trace_format {
    const char *name;
    const char *help;
    void (*begin)(struct buf *out);
    /* Appends one trace, or nothing if it has no interval with a start and an end. `first`: no trace was written yet.
     * 0, -ENOMEM, or the buffer's error. */
    int (*put)(struct buf *out, const struct triton_trace *trace, const struct trace_spans_options *options,
               bool first);
    void (*end)(struct buf *out);
};

extern const struct trace_format trace_format_otlp_json, trace_format_otlp, trace_format_chrome;

/* All formats, NULL-terminated. */
extern const struct trace_format *const trace_formats[];

/* NULL: no such format. */
const struct trace_format *trace_format_by_name(const char *name);

/* Resource and scope of every span, as in Triton's own exports. */
#define TRACE_SERVICE_NAME "triton-inference-server"
#define TRACE_SCOPE_NAME   "triton-server"
