/* What happens to tracing in a child. The first manager registers handlers (pthread_atfork): no thread forks
 * while another holds a lock of ours, so the child finds whole data; there all managers are told, and a
 * generation is counted up by which traces, files and queues of the parent are known. */
#pragma once

#include <stdatomic.h>

struct sonde_trace_manager;

extern atomic_uint trace_generation;

static inline unsigned trace_generation_now(void)
{
    return atomic_load_explicit(&trace_generation, memory_order_relaxed);
}

/* -ENOMEM. */
int trace_fork_add(struct sonde_trace_manager *manager);
void trace_fork_remove(struct sonde_trace_manager *manager);
