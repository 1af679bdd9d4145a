/* Handles fork. The first manager registers pthread_atfork handlers: fork waits for all locks of the library, so the
 * child finds consistent data. In the child all managers are notified, and the generation (process_generation.h) is
 * incremented. */
#pragma once

struct sonde_trace_manager;

/* Registers a manager. -ENOMEM. */
int trace_fork_add(struct sonde_trace_manager *manager);
void trace_fork_remove(struct sonde_trace_manager *manager);
