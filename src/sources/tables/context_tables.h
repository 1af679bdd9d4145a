/* BPF maps of the processes whose threads publish a context (thread contexts, Go labels), and where in memory. Part
 * of the shared tables (shared_tables.h). Pipeline thread only. */
#pragma once

#include <stdint.h>

struct go_labels_layout;
struct thread_context_place;

struct context_tables {
    int thread_contexts_fd, go_labels_fd; /* borrowed from the shared tables */
};

/* Sets where the threads of a process publish their context (probes/thread_context.h); NULL: they do not. -ENOSPC: the
 * map is full. */
int context_tables_set_thread_context(const struct context_tables *t, uint32_t pid,
                                      const struct thread_context_place *place);
/* Sets where the goroutines of a process have their labels (probes/go_labels.h); NULL: no labels. -ENOSPC: the map is
 * full. */
int context_tables_set_go_labels(const struct context_tables *t, uint32_t pid, const struct go_labels_layout *layout);
