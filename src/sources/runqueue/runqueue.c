/* Loads probes/runqueue.bpf.c, drains its records and exports its counters by cgroup. The whole node is watched: the
 * task filter does not apply. */
#include "sources/runqueue/runqueue.h"

#include "sources/attach/map_access.h"
#include "sources/attach/missed_runs.h"
#include "sources/events/record_ring.h"
#include "sources/sampling/cgroup_names.h"
#include "sources/sampling/task_filters.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include "probes/runqueue.h"
#include "runqueue.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Every second of the kernel's power-of-two bounds, from 4 us to 4 s: each is a line per cgroup. */
#define FIRST_BOUND 2
#define LAST_BOUND  22
#define BOUNDS      ((LAST_BOUND - FIRST_BOUND) / 2 + 1)

struct runqueue_source {
    struct runqueue_bpf *bpf;
    const struct shared_tables *tables;
    bool is_started, is_shed;
    struct record_ring ring;
    struct cgroup_names names;
};

static void runqueue_free(void *self)
{
    struct runqueue_source *s = self;
    if (!s)
        return;
    record_ring_close(&s->ring);
    runqueue_bpf__destroy(s->bpf);
    cgroup_names_clear(&s->names);
    free(s);
}

static void runqueue_freep(struct runqueue_source **s)
{
    runqueue_free(*s);
}

static int load_programs(struct runqueue_source *s, const struct runqueue_options *options)
{
    const uint64_t other = RUNQUEUE_OTHER;
    const struct runqueue_waits none = {0};
    libbpf_set_print(NULL);
    s->bpf = runqueue_bpf__open();
    if (!s->bpf)
        return -errno;
    s->bpf->rodata->threshold_ns = options->threshold_ns;
    s->bpf->rodata->cgroup_hierarchy = (int)task_filters_cgroups();
    int r = runqueue_bpf__load(s->bpf);
    if (r == 0)
        r = bpf_map_update_elem(bpf_map__fd(s->bpf->maps.waits), &other, &none, BPF_ANY);
    if (r == 0)
        r = record_ring_open(&s->ring, bpf_map__fd(s->bpf->maps.records));
    return r ?: runqueue_bpf__attach(s->bpf);
}

static int runqueue_open(const struct source_services *services, const void *options, struct attach_report *report,
                         void **ret_self)
{
    __attribute__((cleanup(runqueue_freep))) struct runqueue_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "run queues");
    static const char method[] = "tracepoints of the scheduler";
    if (!s)
        return -ENOMEM;
    s->tables = services->tables;
    int r = load_programs(s, options);
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "no run-queue latency is recorded");
        return r;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    *ret_self = take_ptr(s);
    return 0;
}

static void enable_programs(struct runqueue_source *s)
{
    s->bpf->bss->is_shed = s->is_shed;
    s->bpf->bss->enabled = s->is_started && !s->is_shed;
}

static int runqueue_start(void *self)
{
    struct runqueue_source *s = self;
    s->is_started = true;
    enable_programs(s);
    return 0;
}

static int runqueue_stop(void *self)
{
    struct runqueue_source *s = self;
    s->is_started = false;
    enable_programs(s);
    return 0;
}

/* When a thread became runnable while nothing was recorded is unknown. */
static void forget_threads(struct runqueue_source *s)
{
    map_clear(bpf_map__fd(s->bpf->maps.runnable_since));
}

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "waits for a CPU"},
    {SOURCE_DETAIL_NO_OFF_CPU, "no waits for a CPU"},
    {0},
};

/* The cost is per context switch, so shedding disables the source completely. */
static int runqueue_shed(void *self, enum source_detail detail)
{
    struct runqueue_source *s = self;
    const bool is_shed = detail >= SOURCE_DETAIL_NO_OFF_CPU;
    if (is_shed == s->is_shed)
        return 0;
    s->is_shed = is_shed;
    enable_programs(s);
    if (is_shed)
        forget_threads(s);
    return 0;
}

static bool runqueue_is_enabled(void *self)
{
    return ((const struct runqueue_source *)self)->bpf->bss->enabled;
}

static size_t runqueue_poll_fds(void *self, int *ret_fds, size_t max)
{
    if (max == 0)
        return 0;
    ret_fds[0] = record_ring_poll_fd(&((struct runqueue_source *)self)->ring);
    return 1;
}

static int runqueue_drain(void *self, struct batch *batch)
{
    return record_ring_drain(&((struct runqueue_source *)self)->ring, batch);
}

static struct runqueue_stats read_stats(struct runqueue_source *s)
{
    struct runqueue_stats sum = {0};
    map_sum_counters(bpf_map__fd(s->bpf->maps.stats), &sum, sizeof(sum));
    return sum;
}

static void runqueue_losses(void *self, struct losses *losses)
{
    struct runqueue_source *s = self;
    const struct runqueue_stats sum = read_stats(s);
    losses->count[LOSS_MAP_FULL] += sum.threads_full;
    losses->count[LOSS_RING_FULL] += sum.ring_full;
    losses->count[LOSS_SHED] += sum.shed;
    losses->count[LOSS_MISSED] += missed_runs(s->bpf->obj);
    record_ring_losses(&s->ring, losses);
}

/* ---- metrics ---- */

static void put_waits(struct metric_set *set, const char *cgroup, const struct runqueue_waits *w)
{
    double bounds[BOUNDS];
    uint64_t counts[BOUNDS + 1] = {0};
    for (size_t i = 0; i < BOUNDS; i++)
        bounds[i] = (double)(1ull << (FIRST_BOUND + 2 * i)) / 1e6;
    for (unsigned i = 0; i < RUNQUEUE_BUCKETS; i++) {
        const unsigned bound = i <= FIRST_BOUND ? 0 : (i - FIRST_BOUND + 1) / 2;
        counts[bound < BOUNDS ? bound : BOUNDS] += w->counts[i];
    }
    metric_add_histogram(set, "sonde_runqueue_latency_seconds", "seconds",
                         "How long threads were runnable before they got a CPU, by cgroup.", bounds, counts, BOUNDS,
                         (double)w->sum_ns / 1e9, METRIC_LABELS({"cgroup", cgroup}));
    metric_add(set, "sonde_runqueue_delays", METRIC_COUNTER, "",
               "Times that a thread was runnable for longer than runqueue.threshold, by cgroup.", (double)w->delays,
               METRIC_LABELS({"cgroup", cgroup}));
}

static void runqueue_metrics(void *self, struct metric_set *set)
{
    struct runqueue_source *s = self;
    const struct runqueue_stats sum = read_stats(s);
    const int fd = bpf_map__fd(s->bpf->maps.waits);
    _cleanup_free_ uint64_t *ids = calloc(RUNQUEUE_MAX_CGROUPS + 1, sizeof(*ids));
    size_t count = 0;
    uint64_t id;
    for (uint64_t *before = NULL; ids && count <= RUNQUEUE_MAX_CGROUPS && bpf_map_get_next_key(fd, before, &id) == 0;
         before = &id)
        ids[count++] = id;
    const bool is_fresh = cgroup_names_refresh(&s->names, ids, count, clock_monotonic_ns());
    for (size_t i = 0; i < count; i++) {
        struct runqueue_waits w;
        const char *name = cgroup_names_find(&s->names, ids[i]);
        if (name && bpf_map_lookup_elem(fd, &ids[i], &w) == 0)
            put_waits(set, name, &w);
        else if (!name && is_fresh)
            (void)bpf_map_delete_elem(fd, &ids[i]); /* it is gone, and its counters with it */
    }
    source_put_runs(set, "runqueue", sum.runs, sum.run_time_ns);
}

static size_t runqueue_memory_bytes(void *self)
{
    struct runqueue_source *s = self;
    return shared_tables_bytes_beside(s->tables, s->bpf->obj);
}

static uint64_t runqueue_run_time_ns(void *self)
{
    return read_stats(self).run_time_ns;
}

const struct source source_runqueue = {
    .name = "runqueue",
    .help = "how long threads wait for a CPU",
    .open = runqueue_open,
    .start = runqueue_start,
    .stop = runqueue_stop,
    .poll_fds = runqueue_poll_fds,
    .drain = runqueue_drain,
    .is_enabled = runqueue_is_enabled,
    .losses = runqueue_losses,
    .metrics = runqueue_metrics,
    .memory_bytes = runqueue_memory_bytes,
    .run_time_ns = runqueue_run_time_ns,
    .levels = levels,
    .shed = runqueue_shed,
    .free = runqueue_free,
};
