/* What the span of a model is described with, in OpenTelemetry's names: said once here, in libsonde's order, so that
 * OTLP's JSON and protobuf cannot disagree. */
#pragma once

#include "model/trace_spans.h"

enum trace_attribute_kind {
    TRACE_ATTRIBUTE_TEXT,
    TRACE_ATTRIBUTE_TEXTS, /* a list of one */
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

/* Returns how many there are; none of a span that is not a model's own. */
size_t trace_attributes_of_span(const struct trace_span_record *span, struct trace_attribute ret[TRACE_ATTRIBUTES_MAX]);

/* Of a moment at which tokens were out. */
struct trace_attribute trace_attribute_of_event(const struct span_event *event);
