/* Tells the source of CPU samples where the threads of a process publish which traced request they work for (OTEP 4947), and where a
 * program of Go has its goroutines' labels, as processes come and go. So a sample carries its request's ids, and labels, without anything
 * being attached. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

#include <stdint.h>

struct process;
struct thread_contexts;

int thread_contexts_new(void *cpu_source, struct thread_contexts **ret); /* borrowed */
void thread_contexts_free(struct thread_contexts *c);
DEFINE_FREEP(thread_contexts)

/* A sample of this process (NULL: unknown) was taken, or it has mapped code. Cheap when nothing has changed since. */
void thread_contexts_want(struct thread_contexts *c, const struct process *process);
/* It has gone, or runs another program. */
void thread_contexts_forget(struct thread_contexts *c, uint32_t pid);
void thread_contexts_metrics(const struct thread_contexts *c, struct metric_set *set);
