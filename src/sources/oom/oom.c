/* Loads probes/oom.bpf.c and drains its records. The whole node is watched: the task filter does not apply. */
#include "sources/oom/oom_private.h"

#include "sources/attach/missed_runs.h"
#include "sources/sampling/task_filters.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include "oom.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void oom_free(void *self)
{
    struct oom_source *s = self;
    if (!s)
        return;
    oom_stop_watching(s);
    for (size_t i = 0; i < array_size(s->links); i++)
        bpf_link__destroy(s->links[i]);
    bpf_link__destroy(s->iterator);
    record_ring_close(&s->ring);
    oom_bpf__destroy(s->bpf);
    cgroup_names_clear(&s->names);
    free(s->growth);
    free(s);
}

static void oom_freep(struct oom_source **s)
{
    oom_free(*s);
}

static int attach_all(struct oom_source *s, struct attach_entry *entry)
{
    s->links[0] = bpf_program__attach_raw_tracepoint(s->bpf->progs.oom_kill, "mark_victim");
    if (s->links[0])
        s->links[1] = bpf_program__attach_raw_tracepoint(s->bpf->progs.oom_signal, "signal_generate");
    if (!s->links[1])
        return -errno;
    s->iterator = bpf_program__attach_iter(s->bpf->progs.oom_processes, NULL);
    if (!s->iterator)
        attach_entry_limited(entry, "which processes grow, and the largest ones, are not known");
    else if (shared_tables_sampler_fd(s->tables) < 0)
        attach_entry_limited(entry, "which functions grow is not known without CPU samples");
    return 0;
}

static int load_programs(struct oom_source *s, struct attach_entry *entry)
{
    libbpf_set_print(NULL);
    s->bpf = oom_bpf__open();
    if (!s->bpf)
        return -errno;
    s->bpf->rodata->cgroup_hierarchy = (int)task_filters_cgroups();
    const int r = oom_bpf__load(s->bpf) ?: record_ring_open(&s->ring, bpf_map__fd(s->bpf->maps.records));
    return r ?: attach_all(s, entry);
}

static int oom_open(const struct source_services *services, const void *options, struct attach_report *report,
                    void **ret_self)
{
    static const char method[] = "tracepoints of the OOM killer";
    _cleanup_(oom_freep) struct oom_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "kills for memory");
    (void)options;
    if (s)
        s->growth = calloc(1, sizeof(*s->growth));
    if (!s || !s->growth)
        return -ENOMEM;
    s->tables = services->tables;
    const int r = load_programs(s, entry);
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "processes that the kernel kills are not found");
        return r;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    *ret_self = take_ptr(s);
    return 0;
}

static int oom_start(void *self)
{
    struct oom_source *s = self;
    s->bpf->bss->enabled = 1;
    s->is_started = true;
    return 0;
}

static int oom_stop(void *self)
{
    struct oom_source *s = self;
    s->bpf->bss->enabled = 0;
    s->is_started = false;
    oom_stop_watching(s);
    return 0;
}

static size_t oom_poll_fds(void *self, int *ret_fds, size_t max)
{
    if (max == 0)
        return 0;
    ret_fds[0] = record_ring_poll_fd(&((struct oom_source *)self)->ring);
    return 1;
}

static int oom_drain(void *self, struct batch *batch)
{
    struct oom_source *s = self;
    if (s->is_started)
        oom_follow_growth(s, clock_monotonic_ns());
    return record_ring_drain(&s->ring, batch);
}

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "page faults of growing processes"},
    {SOURCE_DETAIL_HALF_RATE, "no page faults of growing processes"},
    {0},
};

static int oom_shed(void *self, enum source_detail detail)
{
    struct oom_source *s = self;
    s->is_shed = detail >= SOURCE_DETAIL_HALF_RATE;
    if (s->is_shed)
        oom_stop_watching(s);
    return 0;
}

/* ---- what records refer to ---- */

const char *oom_cgroup_path(void *source, uint64_t cgroup_id)
{
    struct oom_source *s = source;
    if (!s)
        return "";
    cgroup_names_refresh(&s->names, &cgroup_id, 1, clock_monotonic_ns());
    return cgroup_names_find(&s->names, cgroup_id) ?: "";
}

const char *oom_limit_name(void *source)
{
    const struct oom_source *s = source;
    const bool is_v1 = s && s->bpf->rodata->cgroup_hierarchy == CGROUP_HIERARCHY_MEMORY;
    return is_v1 ? "memory.limit_in_bytes" : "memory.max";
}

/* ---- statistics ---- */

static void oom_losses(void *self, struct losses *losses)
{
    const struct oom_source *s = self;
    losses->count[LOSS_RING_FULL] += s->bpf->bss->records_lost;
    losses->count[LOSS_MISSED] += missed_runs(s->bpf->obj);
    record_ring_losses(&s->ring, losses);
}

static void oom_metrics(void *self, struct metric_set *set)
{
    const struct oom_source *s = self;
    source_put_runs(set, "oom_processes", s->walks, s->run_time_ns);
}

const struct source source_oom = {
    .name = "oom",
    .help = "processes that the kernel kills for memory",
    .open = oom_open,
    .start = oom_start,
    .stop = oom_stop,
    .poll_fds = oom_poll_fds,
    .drain = oom_drain,
    .losses = oom_losses,
    .metrics = oom_metrics,
    .levels = levels,
    .shed = oom_shed,
    .free = oom_free,
};
