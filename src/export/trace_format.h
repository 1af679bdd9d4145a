/* A format that traces are converted into, trace by trace, so that files of any size can be. One file an
 * implementation, one line in trace_format.c's literal array. */
#pragma once

#include "base/buf.h"
#include "model/trace_spans.h"

struct trace_format {
    const char *name;
    const char *help;
    void (*begin)(struct buf *out);
    /* `first`: nothing was written yet. -ENOMEM, or the buffer's error. */
    int (*put)(struct buf *out, const struct triton_trace *trace, const struct trace_spans_options *options,
               bool first);
    void (*end)(struct buf *out);
};

extern const struct trace_format trace_format_otlp_json, trace_format_otlp, trace_format_chrome;

/* All of them, ended by NULL. */
extern const struct trace_format *const trace_formats[];

const struct trace_format *trace_format_by_name(const char *name);

/* Of the resource and the scope of every span, as Triton's own. */
#define TRACE_SERVICE_NAME "triton-inference-server"
#define TRACE_SCOPE_NAME   "triton-server"
