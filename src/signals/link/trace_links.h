/* Links samples to the requests that programs trace with libsonde: finds the USDT provider sonde_trace in processes
 * as they start and exit (resolve/usdt/usdt_providers.h) and attaches the link source to it (sources/link/link.h).
 * Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/task_filter.h"
#include "signals/signal.h"

#include <stdint.h>

struct processes;
struct trace_links;

/* Source and processes are borrowed. If `filter` selects processes, only these and their descendants are attached to.
 */
int trace_links_new(void *link_source, struct processes *processes, const struct task_filter *filter,
                    struct trace_links **ret);
void trace_links_free(struct trace_links *l);
DEFINE_FREEP(trace_links)

/* Scans the running processes for a bounded time; later turns scan the rest. */
void trace_links_start(struct trace_links *l);
/* Scans these processes. */
void trace_links_turn(struct trace_links *l, const struct mapped_processes *mapped);
/* The process was removed from the table of processes. */
void trace_links_forget(struct trace_links *l, uint32_t pid);
void trace_links_metrics(const struct trace_links *l, struct metric_set *set);
