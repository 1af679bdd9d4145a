/* Spans as they come from an OpenTelemetry file, with what Triton writes into them: enough to make its trace JSON of
 * them again. */
#pragma once

#include "base/cleanup.h"
#include "base/strings.h"
#include "model/triton_trace.h"

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
    uint32_t name; /* numbers of texts in `texts`; 0: none */
    uint32_t first_event, event_count;
    bool has_triton_id; /* a model's own span; what follows is of it */
    uint32_t model_name, request_id;
    int64_t model_version, triton_id, triton_parent_id;
    bool has_failed, was_cancelled;
    uint32_t dropped_events; /* that whoever exported it left out */
    uint32_t message;        /* of its failure */
    uint32_t facts[TRITON_FACT_COUNT];
    int64_t tokens[TRITON_TOKEN_COUNTS]; /* -1: not known */
};

struct otlp_spans {
    struct strings *texts; /* owned, as all of it */
    struct otlp_span *spans;
    size_t count, capacity;
    struct otlp_event *events;
    size_t event_count, event_capacity;
};

int otlp_spans_init(struct otlp_spans *s);
void otlp_spans_clear(struct otlp_spans *s);
/* A span to be filled in, without events; they are added before the next span. NULL: no memory, or too many. */
struct otlp_span *otlp_spans_add(struct otlp_spans *s);
/* To the last span. `tokens`: what an attribute of that name says, or 0. -ENOMEM. */
int otlp_spans_add_event(struct otlp_spans *s, const char *name, size_t size, uint64_t time_unix_ns, uint64_t tokens);

/* The last span failed. */
void otlp_spans_set_failed(struct otlp_spans *s, const char *message, size_t size);

/* One of Triton's attributes of the last span, or of a generation; others are none of ours. Of a list, the first text.
 */
void otlp_spans_set_text(struct otlp_spans *s, const char *key, size_t key_size, const char *text, size_t size);
void otlp_spans_set_integer(struct otlp_spans *s, const char *key, size_t key_size, int64_t value);
void otlp_spans_set_true(struct otlp_spans *s, const char *key, size_t key_size);
