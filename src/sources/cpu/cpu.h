/* What the source of CPU samples is told beside what every source is (source.h). Pipeline thread only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct context_tables;
struct source_options;
struct sampling_rule_table;

/* Puts in what other sources may share with it while it is open: unwinding tables, the tables of who says what it works
 * for, and the table of who is a target. */
void cpu_source_share(void *cpu_source, struct source_options *options);

/* Which processes' threads say what they work for; for as long as it is open. */
struct context_tables cpu_source_contexts(const void *cpu_source);

/* Whom it samples at rates of their own, its own; NULL: nobody. */
struct sampling_rule_table *cpu_source_sampling_rules(void *cpu_source);
/* The table of the processes that were asked for by their numbers, and of their descendants; below 0: all are looked
 * at. Borrowed. */
int cpu_source_followed_fd(void *cpu_source);
