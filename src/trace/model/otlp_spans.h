/* Spans read from an OpenTelemetry file, with the attributes that Triton sets: enough to convert them back to
 * Triton's trace JSON. */
#pragma once

#include "base/cleanup.h"
#include "base/strings.h"
#include "trace/model/triton_trace.h"

#include <stdbool.h>

#define OTLP_SPANS_MAX       (1u << 24)
#define OTLP_NAMES_MAX_BYTES ((size_t)512 << 20)

struct otlp_event {
    uint64_t time_unix_ns;
    uint32_t name;
    uint32_t tokens; /* 0: none */
};

struct otlp_span {
    uint8_t trace_id[16], span_id[8], parent_span_id[8];
    uint64_t start_unix_ns, end_unix_ns;
    uint32_t name; /* indexes of `texts`; 0: none */
    uint32_t first_event, event_count;
    bool has_triton_id; /* a model's own span; the fields below belong to it */
    uint32_t model_name, request_id;
    int64_t model_version, triton_id, triton_parent_id;
    bool has_failed, was_cancelled;
    uint32_t dropped_events; /* reported by the exporter as dropped */
    uint32_t message;        /* of its failure */
    uint32_t facts[TRITON_FACT_COUNT];
    int64_t tokens[TRITON_TOKEN_COUNTS]; /* -1: unknown */
};

struct otlp_spans {
    struct strings *texts; /* owned, like everything here */
    struct otlp_span *spans;
    size_t count, capacity;
    struct otlp_event *events;
    size_t event_count, event_capacity;
};

int otlp_spans_init(struct otlp_spans *s);
void otlp_spans_clear(struct otlp_spans *s);
/* Appends an empty span; its events must be added before the next span. NULL: out of memory, or too many. */
struct otlp_span *otlp_spans_add(struct otlp_spans *s);
/* Adds an event to the last span. `tokens`: the value of the attribute of that name, or 0. 0 or -ENOMEM. */
int otlp_spans_add_event(struct otlp_spans *s, const char *name, size_t size, uint64_t time_unix_ns, uint64_t tokens);

/* Marks the last span as failed. */
void otlp_spans_set_failed(struct otlp_spans *s, const char *message, size_t size);

/* Sets an attribute of the last span if it is one of Triton's or of a generation; others are ignored. For a list,
 * its first string. */
void otlp_spans_set_text(struct otlp_spans *s, const char *key, size_t key_size, const char *text, size_t size);
void otlp_spans_set_integer(struct otlp_spans *s, const char *key, size_t key_size, int64_t value);
void otlp_spans_set_true(struct otlp_spans *s, const char *key, size_t key_size);
