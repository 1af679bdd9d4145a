/* The W3C trace context that a request brings along (https://www.w3.org/TR/trace-context/, level 1 and 2). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_CONTEXT_SAMPLED 1
#define TRACE_CONTEXT_RANDOM  2

struct trace_context {
    uint8_t trace_id[16], parent_id[8];
    uint8_t flags;
};

/* -EINVAL for anything that a receiver must not use; versions after 00 are read as far as 00 goes. */
int trace_context_parse(const char *traceparent, struct trace_context *ret_context);

#define TRACE_PARENT_SIZE 56

/* The header for those that this request calls, from the span `span_id`. */
void trace_context_format(const struct trace_context *c, uint64_t span_id, char ret[TRACE_PARENT_SIZE]);

/* Whether a list is a tracestate that may be passed on: at most 32 members `key=value`, no key twice. */
bool trace_state_is_valid(const char *tracestate, size_t size);
