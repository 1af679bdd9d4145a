/* Reads slow operations; see io_slow_records.h. */
#include "sources/io/io_slow_records.h"

#include "sources/attach/preempt_count.h"
#include "sources/events/record_ring.h"
#include "sources/io/io_skeleton.h"

#include "base/clock.h"
#include "base/cpu_share.h"

#include "io_pending.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WALK_NS    1000000000ull /* between two walks at least */
#define WALK_SHARE 200           /* one part in so many of a CPU goes to walks, at most */

struct io_slow_records {
    struct record_ring ring;
    struct io_pending_bpf *pending; /* NULL: this kernel does not have what the walk needs */
    struct bpf_link *walk;
    uint64_t next_walk_ns;
};

void io_slow_records_free(struct io_slow_records *s)
{
    if (!s)
        return;
    record_ring_close(&s->ring);
    bpf_link__destroy(s->walk);
    io_pending_bpf__destroy(s->pending);
    free(s);
}

/* Its scratch memory is its own: it may be interrupted by the programs of `of`. */
static int share_maps(struct io_pending_bpf *pending, const struct io_bpf *of)
{
    struct bpf_map *map;
    bpf_object__for_each_map(map, pending->obj)
    {
        const char *name = bpf_map__name(map);
        const struct bpf_map *shared = bpf_map__is_internal(map) ? NULL : bpf_object__find_map_by_name(of->obj, name);
        if (!shared || strcmp(name, "slow_scratch") == 0 || strcmp(name, "name_scratch") == 0)
            continue;
        const int r = bpf_map__fd(shared) >= 0 ? bpf_map__reuse_fd(map, bpf_map__fd(shared))
                                               : bpf_map__set_autocreate(map, false);
        if (r < 0)
            return r;
    }
    return 0;
}

static int load_walk(struct io_slow_records *s, const struct io_bpf *bpf, uint64_t slow_ns)
{
    if (!bpf->rodata->has_task_storage)
        return -ENOTSUP;
    s->pending = io_pending_bpf__open();
    if (!s->pending)
        return -errno;
    s->pending->rodata->has_rdonly_cast = preempt_count_find().has_rdonly_cast;
    s->pending->rodata->slow_ns = slow_ns;
    const int r = share_maps(s->pending, bpf) ?: io_pending_bpf__load(s->pending);
    if (r < 0)
        return r;
    s->walk = bpf_program__attach_iter(s->pending->progs.io_pending_task, NULL);
    return s->walk ? 0 : -errno;
}

int io_slow_records_new(struct io_bpf *bpf, uint64_t slow_ns, struct attach_report *report,
                        struct io_slow_records **ret)
{
    static const char method[] = "walk over all tasks";
    _cleanup_(io_slow_records_freep) struct io_slow_records *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "I/O that does not end");
    if (!s)
        return -ENOMEM;
    int r = record_ring_open(&s->ring, bpf_map__fd(bpf->maps.slow_records));
    if (r < 0)
        return r;
    r = load_walk(s, bpf, slow_ns);
    entry->attached = r == 0;
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "slow operations are seen when they end");
    } else {
        snprintf(entry->method, sizeof(entry->method), "%s", method);
    }
    *ret = take_ptr(s);
    return 0;
}

int io_slow_records_fd(const struct io_slow_records *s)
{
    return record_ring_poll_fd(&s->ring);
}

/* The program writes to the ring; reading the iterator returns no bytes. */
static void walk(struct io_slow_records *s)
{
    char nothing[64];
    const uint64_t begin_ns = clock_thread_cpu_ns();
    _cleanup_close_ int fd = bpf_iter_create(bpf_link__fd(s->walk));
    while (fd >= 0 && (read(fd, nothing, sizeof(nothing)) > 0 || errno == EINTR))
        errno = 0;
    const uint64_t took_ns = clock_thread_cpu_ns() - begin_ns;
    s->next_walk_ns = clock_monotonic_ns() + cpu_share_rest_ns(took_ns, WALK_SHARE, WALK_NS);
}

int io_slow_records_drain(struct io_slow_records *s, bool is_enabled, struct batch *batch)
{
    if (s->walk && is_enabled && clock_monotonic_ns() >= s->next_walk_ns)
        walk(s);
    return record_ring_drain(&s->ring, batch);
}

void io_slow_records_losses(const struct io_slow_records *s, struct losses *losses)
{
    record_ring_losses(&s->ring, losses);
}
