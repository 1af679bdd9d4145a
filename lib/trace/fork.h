/* Handles fork. The first manager registers pthread_atfork handlers: fork waits for all locks of the library, so the
 * child finds consistent data. In the child all managers are notified, and a generation number is incremented, which
 * identifies traces, files and queues of the parent. */
#pragma once

#include <stdatomic.h>

struct sonde_trace_manager;

extern atomic_uint trace_generation;

static inline unsigned trace_generation_now(void)
{
    return atomic_load_explicit(&trace_generation, memory_order_relaxed);
}

/* Registers a manager. -ENOMEM. */
int trace_fork_add(struct sonde_trace_manager *manager);
void trace_fork_remove(struct sonde_trace_manager *manager);
