/* Loads the task iterator and runs it in a helper process; see sleeping_tasks.h. */
#include "sources/offcpu/sleeping_tasks.h"

#include "sources/attach/iterator_helper.h"
#include "sources/attach/map_sizes.h"
#include "sources/sampling/task_filters.h"

#include "sleeping_tasks.skel.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct sleeping_tasks {
    struct sleeping_tasks_bpf *bpf;
    struct bpf_link *link;
    struct iterator_helper walk;
};

static int load_iterator(struct sleeping_tasks *a, int records_fd, size_t ring_bytes, int threads_fd)
{
    a->bpf = sleeping_tasks_bpf__open();
    if (!a->bpf)
        return -errno;
    struct sleeping_tasks_bpf *k = a->bpf;
    k->rodata->cgroup_hierarchy = (int)task_filters_cgroups();
    k->rodata->ring_bytes = ring_bytes;
    struct bpf_map *const unused[] = {k->maps.unwind_processes, k->maps.unwind_chunks, k->maps.unwind_objects,
                                      k->maps.unwind_cache};
    for (size_t i = 0; i < array_size(unused); i++) /* frames are unwound in user space */
        (void)bpf_map__set_autocreate(unused[i], false);
    int r = bpf_map__reuse_fd(k->maps.records, records_fd);
    if (r == 0)
        r = bpf_map__reuse_fd(k->maps.threads, threads_fd);
    if (r == 0)
        r = sleeping_tasks_bpf__load(k);
    if (r < 0)
        return r;
    a->link = bpf_program__attach_iter(k->progs.sleeping_tasks_stack, NULL);
    return a->link ? 0 : -errno;
}

int sleeping_tasks_new(int records_fd, size_t ring_bytes, int threads_fd, struct attach_report *report,
                       struct sleeping_tasks **ret_sleeping_tasks)
{
    static const char method[] = "iterator that may sleep";
    struct attach_entry *entry = attach_report_add(report, "stacks of sleeping tasks");
    _cleanup_(sleeping_tasks_freep) struct sleeping_tasks *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    int r = load_iterator(a, records_fd, ring_bytes, threads_fd);
    entry->attached = true;
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->method, sizeof(entry->method), "kernel stacks alone");
        snprintf(entry->limitation, sizeof(entry->limitation),
                 "threads already waiting when the recording begins, such as hung ones, have no user stack "
                 "(needs Linux 5.18)");
        *ret_sleeping_tasks = NULL;
        return 0;
    }
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    *ret_sleeping_tasks = take_ptr(a);
    return 0;
}

int sleeping_tasks_start(struct sleeping_tasks *a)
{
    if (!a || !iterator_helper_has_ended(&a->walk)) /* one walk at a time, and it may hang */
        return 0;
    a->bpf->bss->is_last = 0;
    return iterator_helper_start(&a->walk, bpf_link__fd(a->link), "sonde-sleeping");
}

void sleeping_tasks_end(struct sleeping_tasks *a, int patience_ms)
{
    if (!a || iterator_helper_has_ended(&a->walk))
        return;
    a->bpf->bss->is_last = 1;
    iterator_helper_end(&a->walk, patience_ms);
}

void sleeping_tasks_free(struct sleeping_tasks *a)
{
    if (!a)
        return;
    sleeping_tasks_end(a, 0);
    bpf_link__destroy(a->link);
    sleeping_tasks_bpf__destroy(a->bpf);
    free(a);
}

struct sleeping_tasks_stats sleeping_tasks_read_stats(const struct sleeping_tasks *a)
{
    return a ? a->bpf->bss->stats : (struct sleeping_tasks_stats){0};
}

size_t sleeping_tasks_memory_bytes(const struct sleeping_tasks *a, int cpu_count)
{
    return a ? map_sizes_bytes(a->bpf->maps.unwind_scratch, cpu_count) : 0;
}
