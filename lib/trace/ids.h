/* Identifiers of OpenTelemetry's traces and spans: random at the start, then a counter put through a mixer,
 * so that one costs nanoseconds and no lock. Unique, not secret. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct trace_ids {
    uint64_t seed[2];
    _Atomic uint64_t next;
};

/* Also in a child, which would make its parent's identifiers otherwise. */
void trace_ids_seed(struct trace_ids *ids);

/* Never 0, which is no identifier. */
uint64_t trace_ids_span(struct trace_ids *ids);
void trace_ids_trace(struct trace_ids *ids, uint8_t ret_trace_id[16]);
