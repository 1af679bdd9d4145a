/* Answers in tokens, as libsonde stamps them into a trace: GENERATION_START, FIRST_TOKEN, TOKEN and GENERATION_END, in
 * the order of the file. What is known of the last one's end stands in the trace's facts. */
#pragma once

#include "base/strings.h"
#include "model/triton_trace.h"

struct trace_generation {
    uint64_t begin_ns, first_ns, end_ns;
    uint64_t tokens; /* that were stamped */
    bool has_first, has_end;
    bool is_mixed; /* another one began before it had ended: whose tokens are whose is not known */
};

/* The next one from moment `*at` on, which begins with 0; false: there is none. */
bool trace_generation_next(const struct triton_trace *trace, const struct strings *names, uint32_t *at,
                           struct trace_generation *ret);

/* How many there are. */
uint64_t trace_generation_count(const struct triton_trace *trace, const struct strings *names);

/* The times that OpenTelemetry's metrics of model servers are about; false: not known. An average is per token, over
 * those after the first. */
bool trace_generation_first_token(const struct trace_generation *g, uint64_t *ret_ns);
bool trace_generation_per_token(const struct trace_generation *g, uint64_t tokens, uint64_t *ret_ns);

/* How many tokens it had: as the trace's facts say, which are of the last one, or as they were stamped. */
uint64_t trace_generation_tokens(const struct triton_trace *trace, const struct trace_generation *g, bool is_only);
