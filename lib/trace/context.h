/* W3C Trace Context of incoming requests (https://www.w3.org/TR/trace-context/, level 1 and 2). */
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

/* Parses a traceparent. -EINVAL: a receiver must not use it; later versions are parsed as version 00. */
int trace_context_parse(const char *traceparent, struct trace_context *ret_context);

#define TRACE_PARENT_SIZE 56

/* Formats the traceparent of outgoing requests, with `span_id` as the parent. */
void trace_context_format(const struct trace_context *c, uint64_t span_id, char ret[TRACE_PARENT_SIZE]);

/* Whether `tracestate` is valid: at most 32 members `key=value`, no duplicate keys. */
bool trace_state_is_valid(const char *tracestate, size_t size);
