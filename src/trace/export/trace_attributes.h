/* OpenTelemetry attributes of a model's span, in libsonde's order. Shared by the JSON and protobuf encoders of OTLP. */
#pragma once

#include "trace/model/trace_spans.h"

enum trace_attribute_kind {
    TRACE_ATTRIBUTE_TEXT,
    TRACE_ATTRIBUTE_TEXTS, /* an array with one string */
    TRACE_ATTRIBUTE_INTEGER,
    TRACE_ATTRIBUTE_TRUE,
};

struct trace_attribute {
    const char *key;
    enum trace_attribute_kind kind;
    struct triton_text text;
    int64_t integer;
};

#define TRACE_ATTRIBUTES_MAX 16

/* Fills `ret` and returns the number of attributes; 0 for a span of anything but a model execution. */
size_t trace_attributes_of_span(const struct trace_span_record *span, struct trace_attribute ret[TRACE_ATTRIBUTES_MAX]);

/* Attribute of an event that produced output tokens. */
struct trace_attribute trace_attribute_of_event(const struct span_event *event);
