/* See context_tables.h. Full tables are the caller's to count. */
#include "sources/tables/context_tables.h"

#include <bpf/bpf.h>
#include <errno.h>

/* NULL: takes it out. */
static int set_of_process(int fd, uint32_t pid, const void *value)
{
    int r = value ? bpf_map_update_elem(fd, &pid, value, BPF_ANY) : bpf_map_delete_elem(fd, &pid);
    return r == -E2BIG ? -ENOSPC : r;
}

int context_tables_set_thread_context(const struct context_tables *t, uint32_t pid,
                                      const struct thread_context_place *place)
{
    return set_of_process(t->thread_contexts_fd, pid, place);
}

int context_tables_set_go_labels(const struct context_tables *t, uint32_t pid, const struct go_labels_layout *layout)
{
    return set_of_process(t->go_labels_fd, pid, layout);
}
