/* Generations of tokens, from the moments that libsonde writes to a trace: GENERATION_START, FIRST_TOKEN, TOKEN and
 * GENERATION_END, in the order of the file. The outcome of the last generation is in the trace's facts. */
#pragma once

#include "base/strings.h"
#include "trace/model/triton_trace.h"

struct trace_generation {
    uint64_t begin_ns, first_ns, end_ns;
    uint64_t tokens; /* number of tokens stamped */
    bool has_first, has_end;
    bool is_mixed; /* another generation began before it had ended: tokens cannot be assigned to either */
};

/* The next one from moment `*at` on (initially 0); false at the end. */
bool trace_generation_next(const struct triton_trace *trace, const struct strings *names, uint32_t *at,
                           struct trace_generation *ret);

/* Number of generations. */
uint64_t trace_generation_count(const struct triton_trace *trace, const struct strings *names);

/* Time to first token, and average time per token after the first, as in OpenTelemetry's metrics of model servers;
 * false: unknown. */
bool trace_generation_first_token(const struct trace_generation *g, uint64_t *ret_ns);
bool trace_generation_per_token(const struct trace_generation *g, uint64_t tokens, uint64_t *ret_ns);

/* Number of tokens: from the trace's facts, which describe the last generation, if it is the only one, else as
 * stamped. */
uint64_t trace_generation_tokens(const struct triton_trace *trace, const struct trace_generation *g, bool is_only);
