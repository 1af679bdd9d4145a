/* Converts a trace to the OpenTelemetry spans that Triton itself exports in its mode `opentelemetry`: InferRequest
 * -> the model -> compute, and one for each pair X_START, X_END of the model's own, nested in the span that was open
 * when it began, as libsonde exports them. Span IDs are derived from the IDs in the file. Spans of an ensemble's parts
 * therefore refer to each other without any state, and converting a file twice gives the same result. */
#pragma once

#include "base/cleanup.h"
#include "base/strings.h"
#include "trace/model/triton_trace.h"

struct span_event {
    const char *name; /* borrowed */
    uint64_t time_unix_ns;
    uint32_t tokens; /* 0: none */
};

struct trace_span_record {
    uint8_t trace_id[16], span_id[8], parent_span_id[8]; /* no parent: zeros */
    const char *name;                                    /* borrowed */
    size_t name_size;
    uint64_t start_unix_ns, end_unix_ns;
    const struct triton_trace *trace; /* set for the model's own span, which has the attributes; NULL otherwise */
    const char *model;
    const struct triton_facts *outcome; /* set for the request's and the model's own span: the outcome; NULL: unknown */
    struct span_event *events;          /* owned by the list */
    size_t event_count;
};

struct trace_spans {
    struct trace_span_record *spans; /* owned */
    size_t count, capacity;
};

struct trace_spans_options {
    const struct strings *names;
    uint64_t salt;    /* distinguishes files with equal IDs */
    uint64_t zero_ns; /* Unix time of the clock's zero: added to every time */
};

/* Adds the spans of a trace; a span needs both of its moments. 0 or -ENOMEM. */
int trace_spans_add(struct trace_spans *s, const struct triton_trace *trace, const struct trace_spans_options *options);
/* Empties it, and keeps its memory for reuse. */
void trace_spans_reset(struct trace_spans *s);
void trace_spans_clear(struct trace_spans *s);
