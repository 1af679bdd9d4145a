/* The kernel half's tables of which processes' threads say what they work for, and where: of a source that walks
 * stacks, or of several that share them. Pipeline thread only. */
#pragma once

#include <stdint.h>

struct go_labels_layout;
struct thread_context_place;

struct context_tables {
    int thread_contexts_fd, go_labels_fd; /* borrowed from the source that made them */
};

/* Where threads of this process publish what they work for (probes/thread_context.h); NULL: nowhere. -ENOSPC: there is
 * no room. */
int context_tables_set_thread_context(const struct context_tables *t, uint32_t pid,
                                      const struct thread_context_place *place);
/* Where goroutines of this process have their labels (probes/go_labels.h); NULL: nowhere. -ENOSPC: there is no room. */
int context_tables_set_go_labels(const struct context_tables *t, uint32_t pid, const struct go_labels_layout *layout);
