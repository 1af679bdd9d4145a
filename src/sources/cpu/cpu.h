/* The CPU source beyond source.h: what other sources share with it. Pipeline thread only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct context_tables;
struct source_options;
struct sampling_rule_table;

/* Lets `options` of another source borrow this source's tables, while it is open: unwind tables, context tables and
 * the sampling rule keys. */
void cpu_source_share(void *cpu_source, struct source_options *options);

/* The context tables (context_tables.h); valid while the source is open. */
struct context_tables cpu_source_contexts(const void *cpu_source);

/* Its sampling rule table; NULL: no rules. */
struct sampling_rule_table *cpu_source_sampling_rules(void *cpu_source);
/* Borrowed descriptor of the map of monitored processes (source_options.pids and their descendants); negative: all
 * processes are monitored. */
int cpu_source_followed_fd(void *cpu_source);
