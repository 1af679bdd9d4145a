/* Loads probes/reclaim.bpf.c, drains its records and exports its counters by cgroup. The whole node is watched: the
 * task filter does not apply. */
#include "sources/reclaim/reclaim.h"

#include "sources/attach/missed_runs.h"
#include "sources/reclaim/reclaim_private.h"
#include "sources/run_timers.h"
#include "sources/sampling/task_filters.h"

#include "base/cleanup.h"

#include "reclaim.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void reclaim_free(void *self)
{
    struct reclaim_source *s = self;
    if (!s)
        return;
    for (size_t i = 0; i < array_size(s->links); i++)
        bpf_link__destroy(s->links[i]);
    record_ring_close(&s->ring);
    reclaim_bpf__destroy(s->bpf);
    cgroup_names_clear(&s->names);
    if (s->memory_fd >= 0)
        close(s->memory_fd);
    free(s);
}

static void reclaim_freep(struct reclaim_source **s)
{
    reclaim_free(*s);
}

/* Reclaim on a NUMA node counts as direct reclaim, and runs the same programs: its cause is a shortage of memory, too.
 * Each end is attached before its begin. Returns the error of the first that cannot be attached. */
static int attach_all(struct reclaim_source *s, struct attach_entry *entry)
{
    const struct {
        const struct bpf_program *program;
        const char *tracepoint, *limitation;
    } attached[RECLAIM_LINKS] = {
        {s->bpf->progs.reclaim_node_end, "mm_vmscan_direct_reclaim_end", ""},
        {s->bpf->progs.reclaim_node_begin, "mm_vmscan_direct_reclaim_begin", "direct reclaim is not measured"},
        {s->bpf->progs.reclaim_node_end, "mm_vmscan_node_reclaim_end", ""},
        {s->bpf->progs.reclaim_node_begin, "mm_vmscan_node_reclaim_begin", "reclaim on NUMA nodes is not measured"},
        {s->bpf->progs.reclaim_limit_end, "mm_vmscan_memcg_reclaim_end", ""},
        {s->bpf->progs.reclaim_limit_begin, "mm_vmscan_memcg_reclaim_begin",
         "reclaim at limits of cgroups is not measured"},
        {s->bpf->progs.reclaim_compaction_end, "mm_compaction_end", ""},
        {s->bpf->progs.reclaim_compaction_begin, "mm_compaction_begin", "compaction is not measured"},
    };
    int r = 0;
    for (size_t i = 0; i < RECLAIM_LINKS; i++) {
        s->links[i] = bpf_program__attach_raw_tracepoint(attached[i].program, attached[i].tracepoint);
        if (s->links[i])
            continue;
        r = r ?: -errno;
        attach_entry_limited(entry, attached[i].limitation);
    }
    for (size_t i = 0; i < RECLAIM_LINKS; i++)
        if (s->links[i])
            return 0;
    return r;
}

static int load_programs(struct reclaim_source *s, const struct reclaim_options *options, struct attach_entry *entry)
{
    const uint64_t other = RECLAIM_OTHER;
    const struct reclaim_cgroup none = {0};
    libbpf_set_print(NULL);
    s->bpf = reclaim_bpf__open();
    if (!s->bpf)
        return -errno;
    s->bpf->rodata->threshold_ns = options->threshold_ns;
    s->bpf->rodata->cgroup_hierarchy = (int)task_filters_cgroups();
    s->bpf->rodata->has_recorder = shared_tables_recorder(s->tables) != NULL;
    int r = shared_tables_use(s->tables, s->bpf->obj) ?: reclaim_bpf__load(s->bpf);
    if (r == 0)
        r = bpf_map_update_elem(bpf_map__fd(s->bpf->maps.reclaims), &other, &none, BPF_ANY);
    if (r == 0)
        r = record_ring_open(&s->ring, bpf_map__fd(s->bpf->maps.records));
    return r ?: attach_all(s, entry);
}

static int reclaim_open(const struct source_services *services, const void *options, struct attach_report *report,
                        void **ret_self)
{
    static const char method[] = "tracepoints of memory management";
    _cleanup_(reclaim_freep) struct reclaim_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "reclaim of memory");
    if (!s)
        return -ENOMEM;
    s->tables = services->tables;
    s->memory_fd = cgroup_memory_open();
    const int r = load_programs(s, options, entry);
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "reclaim and compaction are not measured");
        return r;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    *ret_self = take_ptr(s);
    return 0;
}

static int reclaim_start(void *self)
{
    ((struct reclaim_source *)self)->bpf->bss->enabled = 1;
    return 0;
}

static int reclaim_stop(void *self)
{
    ((struct reclaim_source *)self)->bpf->bss->enabled = 0;
    return 0;
}

static size_t reclaim_poll_fds(void *self, int *ret_fds, size_t max)
{
    if (max == 0)
        return 0;
    ret_fds[0] = record_ring_poll_fd(&((struct reclaim_source *)self)->ring);
    return 1;
}

static int reclaim_drain(void *self, struct batch *batch)
{
    return record_ring_drain(&((struct reclaim_source *)self)->ring, batch);
}

const char *reclaim_cgroup_text(void *source, uint64_t cgroup_id, char out[CGROUP_MEMORY_TEXT_BYTES])
{
    struct reclaim_source *s = source;
    out[0] = '\0';
    return s ? cgroup_memory_text(&s->names, s->memory_fd, cgroup_id, out) : out;
}

/* ---- statistics ---- */

static void reclaim_losses(void *self, struct losses *losses)
{
    const struct reclaim_source *s = self;
    losses->count[LOSS_RING_FULL] += s->bpf->bss->records_lost;
    losses->count[LOSS_MISSED] += missed_runs(s->bpf->obj);
    record_ring_losses(&s->ring, losses);
}

static void reclaim_metrics(void *self, struct metric_set *set)
{
    reclaim_put_metrics(self, set);
}

static size_t reclaim_memory_bytes(void *self)
{
    const struct reclaim_source *s = self;
    return shared_tables_bytes_beside(s->tables, s->bpf->obj);
}

static uint64_t reclaim_run_time_ns(void *self)
{
    const struct reclaim_source *s = self;
    return run_timers_ns(s->bpf->bss->run_timers, RECLAIM_TIMERS);
}

const struct source source_reclaim = {
    .name = "reclaim",
    .help = "how long threads reclaim memory",
    .open = reclaim_open,
    .start = reclaim_start,
    .stop = reclaim_stop,
    .poll_fds = reclaim_poll_fds,
    .drain = reclaim_drain,
    .losses = reclaim_losses,
    .metrics = reclaim_metrics,
    .memory_bytes = reclaim_memory_bytes,
    .run_time_ns = reclaim_run_time_ns,
    .free = reclaim_free,
};
