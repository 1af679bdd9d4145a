/* Loads the iterator of probes/threads.bpf.c, runs it in a helper process when it is asked to, and drains its records.
 * The task filter does not apply. */
#include "sources/threads/threads.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "sources/attach/iterator_helper.h"
#include "sources/attach/map_sizes.h"
#include "sources/events/record_ring.h"
#include "sources/sampling/task_filters.h"

#include <linux/types.h>

#include "probes/threads.h"
#include "threads.skel.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define RING_BYTES (256 * 1024) /* a stack has 32 KiB; the walk waits for its reader */
#define PROCESS    "sonde-threads"

struct threads_source {
    struct threads_bpf *bpf;
    struct bpf_link *link;
    struct record_ring ring;
    struct iterator_helper walk;
    uint32_t pid;  /* the process that is being read; 0: none */
    uint64_t lost; /* ends that did not fit the batch */
};

static void threads_free(void *self)
{
    struct threads_source *s = self;
    if (!s)
        return;
    iterator_helper_end(&s->walk, 0);
    record_ring_close(&s->ring);
    bpf_link__destroy(s->link);
    threads_bpf__destroy(s->bpf);
    free(s);
}

static void threads_freep(struct threads_source **s)
{
    threads_free(*s);
}

static int load_iterator(struct threads_source *s)
{
    libbpf_set_print(NULL);
    s->bpf = threads_bpf__open();
    if (!s->bpf)
        return -errno;
    struct threads_bpf *k = s->bpf;
    struct bpf_map *const unused[] = {k->maps.unwind_processes, k->maps.unwind_chunks, k->maps.unwind_objects,
                                      k->maps.unwind_cache};
    k->rodata->cgroup_hierarchy = (int)task_filters_cgroups();
    k->rodata->ring_bytes = RING_BYTES;
    for (size_t i = 0; i < array_size(unused); i++) /* frames are unwound in user space */
        (void)bpf_map__set_autocreate(unused[i], false);
    int r = bpf_map__set_max_entries(k->maps.records, RING_BYTES) ?: threads_bpf__load(k);
    if (r < 0)
        return r;
    s->link = bpf_program__attach_iter(k->progs.threads_of_process, NULL);
    return s->link ? record_ring_open(&s->ring, bpf_map__fd(k->maps.records)) : -errno;
}

static int threads_open(const struct source_services *services, const void *options, struct attach_report *report,
                        void **ret_self)
{
    static const char method[] = "iterator that may sleep";
    _cleanup_(threads_freep) struct threads_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "threads that hang");
    (void)services, (void)options;
    if (!s)
        return -ENOMEM;
    const int r = load_iterator(s);
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation),
                 "threads of a process that hangs have no stacks (needs Linux 5.18)");
        return r;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    *ret_self = take_ptr(s);
    return 0;
}

static int threads_start(void *self)
{
    (void)self; /* nothing is read until it is asked for */
    return 0;
}

int threads_source_read(void *threads_source, uint32_t pid)
{
    struct threads_source *s = threads_source;
    if (s->pid || !iterator_helper_has_ended(&s->walk))
        return -EBUSY;
    s->bpf->bss->wanted_pid = pid;
    const int r = iterator_helper_start(&s->walk, bpf_link__fd(s->link), PROCESS);
    if (r == 0)
        s->pid = pid;
    return r;
}

static void put_end(struct threads_source *s, struct batch *batch)
{
    struct threads_end *end = batch_reserve(batch, sizeof(*end));
    if (end) {
        end->h.kind = RECORD_THREADS_END;
        end->h.time_ns = clock_monotonic_ns();
        end->h.pid = s->pid;
    } else {
        s->lost++;
    }
    s->pid = 0;
}

static size_t threads_poll_fds(void *self, int *ret_fds, size_t max)
{
    if (max == 0)
        return 0;
    ret_fds[0] = record_ring_poll_fd(&((struct threads_source *)self)->ring);
    return 1;
}

static int threads_drain(void *self, struct batch *batch)
{
    struct threads_source *s = self;
    const bool has_ended = iterator_helper_has_ended(&s->walk); /* before the drain: it has all records */
    const int r = record_ring_drain(&s->ring, batch);
    if (r == 0 && s->pid && has_ended)
        put_end(s, batch);
    return r;
}

/* ---- statistics ---- */

static void threads_losses(void *self, struct losses *losses)
{
    const struct threads_source *s = self;
    losses->count[LOSS_RING_FULL] += s->bpf->bss->stats.lost + s->lost;
    record_ring_losses(&s->ring, losses);
}

static size_t threads_memory_bytes(void *self)
{
    const struct threads_source *s = self;
    return RING_BYTES + map_sizes_bytes(s->bpf->maps.unwind_scratch, 1);
}

const struct source source_threads = {
    .name = "threads",
    .help = "threads of a process that hangs, with their stacks",
    .open = threads_open,
    .start = threads_start,
    .poll_fds = threads_poll_fds,
    .drain = threads_drain,
    .losses = threads_losses,
    .memory_bytes = threads_memory_bytes,
    .free = threads_free,
};
