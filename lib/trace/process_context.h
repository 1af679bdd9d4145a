/* What describes the process to profilers that look from outside: OpenTelemetry's OTEP 4719, "Process
 * Context", without which OTEP 4947 has no thread's context read (thread_context.c). A page of memory that is found
 * by its name in /proc/PID/maps. There is one a process, and whoever came first has it. */
#pragma once

#include "fork.h"

#include <stdbool.h>

struct sonde_trace_config;

/* Index of the attribute in the records of threads. */
enum { TRACE_PROCESS_CONTEXT_MODEL_NAME };

/* One at a time. What does not succeed is not published. */
void trace_process_context_publish(const struct sonde_trace_config *config);
void trace_process_context_withdraw(void);

extern atomic_uint trace_process_context_generation; /* of the process that has tried it last */
extern atomic_bool trace_process_context_published;
void trace_process_context_renew(void);

/* Whether indices of attributes mean what we say. A child that was forked off publishes for itself with its
 * first question. */
static inline bool trace_process_context_is_ours(void)
{
    unsigned tried = atomic_load_explicit(&trace_process_context_generation, memory_order_acquire);
    if (__builtin_expect(tried != trace_generation_now(), 0))
        trace_process_context_renew();
    return atomic_load_explicit(&trace_process_context_published, memory_order_relaxed);
}
