/* The process description for external profilers: OTEP 4719 of OpenTelemetry, "Process Context", which readers of
 * OTEP 4947 thread contexts (thread_context.c) require. A memory page that is found by its name in /proc/PID/maps.
 * There is one per process, owned by the library that publishes first. */
#pragma once

#include "process_generation.h"

#include <stdbool.h>

struct sonde_trace_config;

/* Index of the attribute in thread context records. */
enum { TRACE_PROCESS_CONTEXT_MODEL_NAME };

/* Publish and withdraw; not thread-safe. On failure nothing is published. */
void trace_process_context_publish(const struct sonde_trace_config *config);
void trace_process_context_withdraw(void);

extern atomic_uint trace_process_context_generation; /* of the process that last tried to publish */
extern atomic_bool trace_process_context_published;
void trace_process_context_renew(void);

/* Whether this library published the process context, so that its attribute indices apply. A forked child publishes
 * its own on the first call. */
static inline bool trace_process_context_is_ours(void)
{
    unsigned tried = atomic_load_explicit(&trace_process_context_generation, memory_order_acquire);
    if (__builtin_expect(tried != trace_generation_now(), 0))
        trace_process_context_renew();
    return atomic_load_explicit(&trace_process_context_published, memory_order_relaxed);
}
