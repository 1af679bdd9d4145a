/* Tells the kernel half where the threads of a process publish which traced request they work for (OTEP 4947), and
 * where a program of Go has its goroutines' labels, as processes come and go. So a sample or a wait carries its
 * request's ids, and labels, without anything being attached. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

#include <stdint.h>

struct context_tables;
struct process;
struct thread_contexts;

int thread_contexts_new(const struct context_tables *tables,
                        struct thread_contexts **ret); /* theirs who made them: to be freed before */
void thread_contexts_free(struct thread_contexts *c);
DEFINE_FREEP(thread_contexts)

/* A sample or a wait of this process (NULL: unknown) was taken, or it has mapped code. Cheap when nothing has changed
 * since. */
void thread_contexts_want(struct thread_contexts *c, const struct process *process);
/* It has gone, or runs another program. */
void thread_contexts_forget(struct thread_contexts *c, uint32_t pid);
void thread_contexts_metrics(const struct thread_contexts *c, struct metric_set *set);
