/* Registers with the BPF programs where the threads of a process publish the traced request that they work for (OTEP
 * 4947), and where a Go program has its goroutine labels. A sample then carries the ids and labels of its request,
 * without anything being attached to the process. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

#include <stdint.h>

struct context_tables;
struct process;
struct thread_contexts;

/* `tables` belong to their source, which must outlive the result. */
int thread_contexts_new(const struct context_tables *tables, struct thread_contexts **ret);
void thread_contexts_free(struct thread_contexts *c);
DEFINE_FREEP(thread_contexts)

/* A sample of this process (NULL: unknown) was taken, or it has mapped code. Cheap if its mappings have not changed
 * since. */
void thread_contexts_want(struct thread_contexts *c, const struct process *process);
/* The process has exited, or executed another program. */
void thread_contexts_forget(struct thread_contexts *c, uint32_t pid);
void thread_contexts_metrics(const struct thread_contexts *c, struct metric_set *set);
