/* Converts a finished request to OpenTelemetry spans: InferRequest, within it one span per model, within that
 * `compute` and the server's own pairs X_START, X_END. Points into the tree. Used by the writer thread. */
#pragma once

#include "node.h"

#define TRACE_NO_EVENT UINT32_MAX

struct trace_span_event {
    const struct trace_record *record;
    uint32_t next; /* of the same span */
};

struct trace_span {
    const char *name;
    size_t name_size;
    uint64_t id, parent_id;            /* parent 0: none */
    uint64_t start_ns, end_ns;         /* CLOCK_MONOTONIC */
    const struct sonde_trace *model;   /* source of its attributes; NULL: none */
    const struct sonde_trace *outcome; /* source of its status; NULL: none */
    uint32_t first_event, last_event;
    uint32_t event_count, dropped_events;
};

struct trace_spans {
    struct trace_span *spans;
    struct trace_span_event *events;
    uint32_t *open; /* spans that have begun, innermost last */
    uint32_t count, capacity, event_count, event_capacity, open_count, open_capacity;
    bool failed; /* out of memory: incomplete */
};

/* Replaces the previous spans. The root is the first. */
void trace_spans_make(struct trace_spans *s, const struct trace_tree *tree);
void trace_spans_free(struct trace_spans *s);

/* The number of spans that trace_spans_make creates. */
uint32_t trace_spans_count(const struct trace_tree *tree);
