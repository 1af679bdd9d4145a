/* See context_tables.h. The caller counts losses from full tables. */
#include "sources/tables/context_tables.h"

#include <bpf/bpf.h>
#include <errno.h>

/* NULL: deletes the entry. */
static int set_process_entry(int fd, uint32_t pid, const void *value)
{
    int r = value ? bpf_map_update_elem(fd, &pid, value, BPF_ANY) : bpf_map_delete_elem(fd, &pid);
    return r == -E2BIG ? -ENOSPC : r;
}

int context_tables_set_thread_context(const struct context_tables *t, uint32_t pid,
                                      const struct thread_context_place *place)
{
    return set_process_entry(t->thread_contexts_fd, pid, place);
}

int context_tables_set_go_labels(const struct context_tables *t, uint32_t pid, const struct go_labels_layout *layout)
{
    return set_process_entry(t->go_labels_fd, pid, layout);
}
