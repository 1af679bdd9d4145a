/* Links between what is sampled and the requests that programs trace with libsonde: finds the provider
 * sonde_trace in processes as they come and go (resolve/usdt/usdt_providers.h) and has the source of links
 * attached to it (sources/link/link.h). Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "sources/source.h"

#include <stdint.h>

struct processes;
struct trace_links;

/* Both are borrowed. Of `options` the processes that are asked for: where there are any, nobody but these and
 * their descendants is attached to. */
int trace_links_new(void *link_source, struct processes *processes, const struct source_options *options,
                    struct trace_links **ret);
void trace_links_free(struct trace_links *l);
DEFINE_FREEP(trace_links)

/* Looks at who runs already, for a moment; the rest follows in turns. */
void trace_links_start(struct trace_links *l);
/* These processes have begun or mapped code; or others as well, and it is not known which. */
void trace_links_turn(struct trace_links *l, const uint32_t *pids, size_t count, bool is_incomplete);
/* It is no longer in the table of processes. */
void trace_links_forget(struct trace_links *l, uint32_t pid);
void trace_links_metrics(const struct trace_links *l, struct metric_set *set);
