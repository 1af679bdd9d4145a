/* The USDT provider `sonde_trace`: reports every request, sampled or not, and the threads that work for it, to
 * attached tracers. One per process, loaded while there is a manager (fork.c). Costs a test of one word while no
 * tracer is attached. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sonde_trace;

/* The external identity of a trace: both W3C ids in network byte order. */
struct trace_identity {
    uint8_t trace_id[16];
    uint64_t span_id;
    uint64_t id; /* id in the trace file, or 0 */
};

/* The semaphores of all four probes, which are adjacent in the provider's object. */
extern _Atomic(const uint64_t *) trace_listeners;

static inline bool trace_probes_enabled(void)
{
    const uint64_t *listeners = atomic_load_explicit(&trace_listeners, memory_order_acquire);
    return __builtin_expect(__atomic_load_n(listeners, __ATOMIC_RELAXED) != 0, 0);
}

/* Load and unload the provider; not thread-safe. If loading fails, the probes stay inactive. */
void trace_probes_load(void);
void trace_probes_unload(void);

void trace_probes_start(const struct sonde_trace *t);
void trace_probes_end(const struct sonde_trace *t);
void trace_probes_enter(const struct trace_identity *who);
void trace_probes_leave(const struct trace_identity *current);
