/* Encodes spans as an OTLP packet: JSON, as Triton sends them, or protobuf. */
#pragma once

#include "spans.h"
#include "text.h"

struct sonde_trace_config;

struct trace_packet {
    struct trace_text text;
    uint32_t spans;
    size_t resource_spans, scope_spans; /* protobuf: positions of the open messages */
};

struct trace_encoding {
    void (*begin)(struct trace_packet *p, const struct sonde_trace_config *config);
    void (*span)(struct trace_packet *p, const struct trace_tree *tree, const struct trace_spans *spans,
                 const struct trace_span *span);
    void (*end)(struct trace_packet *p);
};

extern const struct trace_encoding trace_encoding_json, trace_encoding_protobuf;

#define TRACE_SCOPE_NAME "triton-server"

/* The status message of a failed span, possibly ""; NULL if it did not fail. */
const char *trace_outcome(const struct trace_span *span, size_t *ret_size);

static inline uint64_t trace_unix_ns(const struct trace_tree *tree, uint64_t monotonic_ns)
{
    return monotonic_ns + tree->unix_offset_ns;
}
