/* The span that represents a served request in traces: in its caller's trace if the caller named one (W3C Trace
 * Context, header traceparent), else in the trace of its own program's span, else in a trace of its own. Pure. */
#pragma once

#include "model/trace_link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request_span {
    struct trace_link id; /* its own; zeros: it has none, because spans are not exported */
    uint64_t parent_id;   /* 0: it begins its trace */
    bool is_remote;       /* the parent is its caller's */
    bool is_unsampled;    /* its caller does not sample the trace */
};

/* Makes the IDs of one agent: random bits. All zero: no spans. */
struct span_seed {
    uint64_t high, low;
};

/* The trace of the exports of every agent, which is never sampled: without it, the export of spans to a receiver of
 * this node would make further spans. */
#define SPAN_EXPORTS_TRACE_HIGH  0x736f6e64652d6f77ull
#define SPAN_EXPORTS_TRACE_LOW   0x6e2d6578706f7274ull
#define SPAN_EXPORTS_TRACEPARENT "00-736f6e64652d6f776e2d6578706f7274-736f6e64652d6f77-00"

struct traceparent {
    struct trace_link caller; /* span_id is not 0 */
    bool is_sampled;
};

/* Parses the value of a header traceparent. Its first 55 bytes are enough. False: it is not valid. */
bool traceparent_parse(const char *text, size_t bytes, struct traceparent *ret);

/* The span of request `request_id`: the same one for the same arguments. `caller` NULL: it named no trace. `own`: the
 * span of the request's program; zeros: none. */
struct request_span request_span_make(const struct span_seed *seed, uint64_t request_id,
                                      const struct traceparent *caller, const struct trace_link *own);

/* Whether the request is an agent's export. */
static inline bool request_span_is_of_export(const struct request_span *span)
{
    return span->id.trace_id_high == SPAN_EXPORTS_TRACE_HIGH && span->id.trace_id_low == SPAN_EXPORTS_TRACE_LOW;
}
