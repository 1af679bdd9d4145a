/* Loads probes/runqueue.bpf.c, drains its records and exports its counters by cgroup. The whole node is watched: the
 * task filter does not apply. */
#include "sources/runqueue/runqueue.h"

#include "sources/attach/map_access.h"
#include "sources/attach/missed_runs.h"
#include "sources/events/record_ring.h"
#include "sources/sampling/cgroup_search.h"
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
#include <string.h>

#define NAMES_NS 5000000000ull /* between two walks over the tree of cgroups */

/* Every second of the kernel's power-of-two bounds, from 4 us to 4 s: each is a line per cgroup. */
#define FIRST_BOUND 2
#define LAST_BOUND  22
#define BOUNDS      ((LAST_BOUND - FIRST_BOUND) / 2 + 1)

struct named_cgroup {
    uint64_t id;
    char *path;
};

struct runqueue_source {
    struct runqueue_bpf *bpf;
    const struct shared_tables *tables;
    bool is_started, is_shed;
    struct record_ring ring;
    struct runqueue_stats *stats; /* per possible CPU */
    int cpu_count;
    struct named_cgroup *names; /* sorted by id */
    size_t name_count;
    uint64_t named_ns; /* when they were read; 0: never */
};

static void clear_names(struct runqueue_source *s)
{
    for (size_t i = 0; i < s->name_count; i++)
        free(s->names[i].path);
    free(s->names);
    s->names = NULL;
    s->name_count = 0;
}

static void runqueue_free(void *self)
{
    struct runqueue_source *s = self;
    if (!s)
        return;
    record_ring_close(&s->ring);
    runqueue_bpf__destroy(s->bpf);
    clear_names(s);
    free(s->stats);
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
    s->cpu_count = libbpf_num_possible_cpus();
    if (s->cpu_count <= 0)
        return -ENODEV;
    s->stats = calloc((size_t)s->cpu_count, sizeof(*s->stats));
    if (!s->stats)
        return -ENOMEM;
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
    map_sum_counters(bpf_map__fd(s->bpf->maps.stats), s->stats, s->cpu_count, &sum, sizeof(sum));
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

/* ---- names of cgroups ---- */

static int compare_names(const void *a, const void *b)
{
    const struct named_cgroup *one = a, *other = b;
    return one->id < other->id ? -1 : one->id > other->id;
}

static void add_name(void *context, const char *path, uint64_t id)
{
    struct runqueue_source *s = context;
    struct named_cgroup *grown = reallocarray(s->names, s->name_count + 1, sizeof(*grown));
    char *copy = grown ? strdup(path) : NULL;
    s->names = grown ? grown : s->names;
    if (copy)
        s->names[s->name_count++] = (struct named_cgroup){.id = id, .path = copy};
}

/* NULL: unknown, or gone. */
static const char *name_of(const struct runqueue_source *s, uint64_t id)
{
    const struct named_cgroup wanted = {.id = id};
    if (id == RUNQUEUE_OTHER)
        return "other";
    const struct named_cgroup *found =
        s->names ? bsearch(&wanted, s->names, s->name_count, sizeof(wanted), compare_names) : NULL;
    return found ? found->path : NULL;
}

/* Walks over the tree if a cgroup of `ids` has no name and the last walk was a while ago. True: the names are
 * current, so that a cgroup without one is gone. */
static bool refresh_names(struct runqueue_source *s, const uint64_t *ids, size_t count, uint64_t now_ns)
{
    size_t named = 0;
    while (named < count && name_of(s, ids[named]))
        named++;
    if (named == count || (s->named_ns && now_ns - s->named_ns < NAMES_NS))
        return false;
    clear_names(s);
    const bool is_complete = cgroup_search_each(add_name, s) == 0;
    if (s->names)
        qsort(s->names, s->name_count, sizeof(*s->names), compare_names);
    s->named_ns = now_ns;
    return is_complete;
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
    const bool is_fresh = refresh_names(s, ids, count, clock_monotonic_ns());
    for (size_t i = 0; i < count; i++) {
        struct runqueue_waits w;
        const char *name = name_of(s, ids[i]);
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
