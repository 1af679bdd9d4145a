/* Generates OpenTelemetry trace and span ids: a counter with a random start, passed through a mixer; costs
 * nanoseconds and no lock. Unique, not secret. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct trace_ids {
    uint64_t seed[2];
    _Atomic uint64_t next;
};

/* Also called in a child, which would otherwise generate its parent's ids. */
void trace_ids_seed(struct trace_ids *ids);

/* Never 0, which is invalid. */
uint64_t trace_ids_span(struct trace_ids *ids);
void trace_ids_trace(struct trace_ids *ids, uint8_t ret_trace_id[16]);
