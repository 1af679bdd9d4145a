/* What the source of CPU samples is told beside what every source is (source.h). Pipeline thread only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct go_labels_layout;
struct source_options;
struct target_table;
struct thread_context_place;

/* Where threads of this process publish what they work for (probes/thread_context.h); NULL: nowhere. -ENOSPC: there is no room. */
int cpu_source_set_thread_context(void *cpu_source, uint32_t pid, const struct thread_context_place *place);
/* Where goroutines of this process have their labels (probes/go_labels.h); NULL: nowhere. -ENOSPC: there is no room. */
int cpu_source_set_go_labels(void *cpu_source, uint32_t pid, const struct go_labels_layout *layout);

/* Puts in what other sources may share with it while it is open: unwinding tables, and the table of who is a target. */
void cpu_source_share(void *cpu_source, struct source_options *options);

/* Whom it samples at rates of their own, its own; NULL: nobody. */
const struct target_table *cpu_source_targets(const void *cpu_source);
struct target_pod;
/* As target_table_set_pods; nothing where it samples nobody at a rate of their own. */
void cpu_source_set_target_pods(void *cpu_source, const struct target_pod *pods, size_t count);
/* The table of the processes that were asked for by their numbers, and of their descendants; below 0: all are looked at. Borrowed. */
int cpu_source_followed_fd(void *cpu_source);
