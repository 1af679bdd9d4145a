/* The metrics of source "reclaim": its own counters by cgroup, and the kernel's counters for the same cgroups. */
#include "sources/attach/map_walk.h"
#include "sources/reclaim/reclaim_private.h"
#include "sources/run_timers.h"
#include "sources/sampling/cgroup_memory.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include "reclaim.skel.h"

#include <bpf/bpf.h>
#include <stdlib.h>

const char *reclaim_kind_name(size_t kind)
{
    static const char *const names[RECLAIM_KINDS] = {
        [RECLAIM_NODE] = "node", [RECLAIM_LIMIT] = "limit", [RECLAIM_COMPACTION] = "compaction"};
    return names[kind];
}

static void put_counts(struct metric_set *set, const char *cgroup, const struct reclaim_cgroup *c)
{
    const double page_bytes = (double)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < RECLAIM_KINDS; i++) {
        const struct reclaim_count *count = &c->kinds[i];
        if (!count->runs)
            continue;
        metric_add(set, "sonde_reclaim_seconds", METRIC_COUNTER, "seconds",
                   "Time that threads spent in reclaim or compaction of memory, by cgroup.", (double)count->ns / 1e9,
                   METRIC_LABELS({"cgroup", cgroup}, {"kind", reclaim_kind_name(i)}));
        metric_add(set, "sonde_reclaim_runs", METRIC_COUNTER, "",
                   "Times that threads reclaimed or compacted memory, by cgroup.", (double)count->runs,
                   METRIC_LABELS({"cgroup", cgroup}, {"kind", reclaim_kind_name(i)}));
        if (i != RECLAIM_COMPACTION)
            metric_add(set, "sonde_reclaim_freed_bytes", METRIC_COUNTER, "bytes",
                       "Memory that threads freed in reclaim, by cgroup.", (double)count->pages * page_bytes,
                       METRIC_LABELS({"cgroup", cgroup}, {"kind", reclaim_kind_name(i)}));
    }
}

static void put_known(struct metric_set *set, const char *name, const char *unit, const char *help, double scale,
                      uint64_t value, const char *cgroup, const char *memory)
{
    const struct metric_label labels[] = {{"cgroup", cgroup}, {"memory", memory}};
    if (value != CGROUP_MEMORY_UNKNOWN)
        metric_add(set, name, METRIC_COUNTER, unit, help, (double)value * scale, labels, memory[0] ? 2 : 1);
}

/* What the kernel counts anyway. */
static void put_kernel_counts(struct metric_set *set, const char *cgroup, int memory_fd)
{
    static const char refaults[] = "sonde_reclaim_refaults",
                      refaults_help[] = "Pages that were needed again soon after they had been reclaimed, by cgroup.";
    uint64_t v[CGROUP_MEMORY_COUNTERS];
    cgroup_memory_read(memory_fd, cgroup, v);
    put_known(set, "sonde_reclaim_page_faults", "", "Page faults, by cgroup.", 1, v[CGROUP_MEMORY_FAULTS], cgroup, "");
    put_known(set, "sonde_reclaim_major_page_faults", "", "Page faults that read from a disk, by cgroup.", 1,
              v[CGROUP_MEMORY_MAJOR_FAULTS], cgroup, "");
    put_known(set, refaults, "", refaults_help, 1, v[CGROUP_MEMORY_REFAULTS_FILE], cgroup, "file");
    put_known(set, refaults, "", refaults_help, 1, v[CGROUP_MEMORY_REFAULTS_ANONYMOUS], cgroup, "anonymous");
    put_known(set, "sonde_reclaim_high", "", "Times that a cgroup exceeded its memory.high.", 1, v[CGROUP_MEMORY_HIGH],
              cgroup, "");
    put_known(set, "sonde_reclaim_stalled_seconds", "seconds",
              "Time in which at least one thread was short of memory, by cgroup.", 1e-6, v[CGROUP_MEMORY_STALLED_US],
              cgroup, "");
}

void reclaim_put_metrics(struct reclaim_source *s, struct metric_set *set)
{
    static const char *const programs[RECLAIM_TIMERS] = {"reclaim_begin", "reclaim_end"};
    const int fd = bpf_map__fd(s->bpf->maps.reclaims);
    _cleanup_free_ uint64_t *ids = calloc(RECLAIM_MAX_CGROUPS + 1, sizeof(*ids));
    size_t count = 0;
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); ids && count <= RECLAIM_MAX_CGROUPS && map_walk_next(&walk, &ids[count], NULL);)
        count++;
    const bool is_fresh = cgroup_names_refresh(&s->names, ids, count, clock_monotonic_ns());
    for (size_t i = 0; i < count; i++) {
        struct reclaim_cgroup c;
        const char *name = cgroup_names_find(&s->names, ids[i]);
        if (!name && is_fresh)
            (void)bpf_map_delete_elem(fd, &ids[i]); /* it is gone, and its counters with it */
        if (!name || bpf_map_lookup_elem(fd, &ids[i], &c) < 0)
            continue;
        put_counts(set, name, &c);
        if (ids[i] != RECLAIM_OTHER && s->memory_fd >= 0)
            put_kernel_counts(set, name, s->memory_fd);
    }
    run_timers_put(s->bpf->bss->run_timers, programs, RECLAIM_TIMERS, set);
}
