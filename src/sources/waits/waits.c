/* Loads probes/waits.bpf.c by the method that the kernel allows, sets the processes that they watch, and drains its
 * records. Reports as losses what its programs count (struct waits_stats). */
#include "sources/waits/waits.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "sources/attach/map_access.h"
#include "sources/attach/missed_runs.h"
#include "sources/attach/perf_events.h"
#include "sources/events/record_ring.h"
#include "sources/run_timers.h"
#include "sources/sampling/task_filters.h"
#include "sources/tables/unwind_tables_private.h"

#include <linux/types.h>

#include "probes/waits.h"
#include "waits.skel.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define RING_BYTES (512 * 1024)

struct waits_source {
    struct waits_bpf *bpf;
    struct record_ring ring;
    struct perf_events *clock; /* NULL: the kernel refuses it */
    const struct shared_tables *tables;
    int cpu_count;
    bool is_shed;
    bool is_watching; /* some processes */
    bool is_ticking;
    uint64_t unfollowed; /* failed attempts to sample new CPUs: at most one a second */
};

static void waits_free(void *self)
{
    struct waits_source *s = self;
    if (!s)
        return;
    perf_events_free(s->clock);
    record_ring_close(&s->ring);
    waits_bpf__destroy(s->bpf);
    free(s);
}

static void waits_freep(struct waits_source **s)
{
    waits_free(*s);
}

/* ---- opening ---- */

static int load_programs(const struct source_services *services, enum waits_method method, int cpu_count,
                         struct waits_bpf **ret)
{
    struct waits_bpf *bpf = waits_bpf__open();
    if (!bpf)
        return -errno;
    bpf->rodata->ring_bytes = RING_BYTES;
    bpf->rodata->cgroup_hierarchy = (int)task_filters_cgroups();
    bpf->rodata->no_runtimes = services->no_runtimes;
    bpf_program__set_autoload(bpf->progs.waits_return, method == WAITS_AT_RETURN);
    bpf_program__set_autoload(bpf->progs.waits_switch, method == WAITS_AT_SWITCHES);
    int r = bpf_map__set_max_entries(bpf->maps.records, RING_BYTES)
                ?: bpf_map__set_max_entries(bpf->maps.unwind_scratch, (uint32_t)cpu_count)
                ?: unwind_tables_size_interpreters(bpf->obj, (uint32_t)cpu_count)
                ?: shared_tables_use(services->tables, bpf->obj)
                ?: waits_bpf__load(bpf)
                ?: waits_bpf__attach(bpf);
    if (r < 0)
        waits_bpf__destroy(bpf);
    else
        *ret = bpf;
    return r;
}

static int open_programs(struct waits_source *s, const struct source_services *services, enum waits_method only,
                         struct attach_entry *entry)
{
    static const struct {
        const char *name, *limitation;
    } methods[] = {
        [WAITS_AT_RETURN] = {"return from the scheduler", ""},
        [WAITS_AT_SWITCHES] = {"switches", "taken before a wait is known to be long: on a CPU with very many short "
                                           "waits, some long waits have none"},
    };
    int r = -ENOTSUP;
    libbpf_set_print(NULL);
    for (size_t i = 0; i < array_size(methods); i++) {
        if (only != WAITS_BEST && (size_t)only != i)
            continue;
        r = load_programs(services, (enum waits_method)i, s->cpu_count, &s->bpf);
        if (r == 0) {
            entry->attached = true;
            snprintf(entry->method, sizeof(entry->method), "%s", methods[i].name);
            snprintf(entry->limitation, sizeof(entry->limitation), "%s", methods[i].limitation);
            return 0;
        }
        attach_entry_refused(entry, methods[i].name, r);
    }
    snprintf(entry->limitation, sizeof(entry->limitation), "waits of requests have no stacks");
    return r;
}

/* A clock of its own: the rate of profiles is their own setting, and shed apart. */
static void open_clock(struct waits_source *s, struct attach_report *report)
{
    struct attach_entry *entry = attach_report_add(report, "stacks of running servers");
    const struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = 1000000000ULL / WAITS_RUN_HZ,
        .exclude_idle = 1,
    };
    const int r = perf_events_open(&attr, bpf_program__fd(s->bpf->progs.waits_run), 0, &s->clock);
    if (r < 0) {
        attach_entry_refused(entry, "perf event, cpu-clock", r);
        snprintf(entry->limitation, sizeof(entry->limitation),
                 "functions of requests come from the profile's samples only");
        return;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "perf event, cpu-clock");
}

int waits_source_open_by(const struct source_services *services, struct attach_report *report, enum waits_method method,
                         void **ret_self)
{
    _cleanup_(waits_freep) struct waits_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "stacks of servers' waits");
    if (!s)
        return -ENOMEM;
    s->tables = services->tables;
    s->cpu_count = libbpf_num_possible_cpus();
    if (s->cpu_count <= 0)
        return -ENODEV;
    int r = open_programs(s, services, method, entry) ?: record_ring_open(&s->ring, bpf_map__fd(s->bpf->maps.records));
    if (r < 0)
        return r;
    open_clock(s, report);
    *ret_self = take_ptr(s);
    return 0;
}

static int waits_open(const struct source_services *services, const void *options, struct attach_report *report,
                      void **ret_self)
{
    (void)options;
    return waits_source_open_by(services, report, WAITS_BEST, ret_self);
}

/* ---- recording ---- */

static int waits_start(void *self)
{
    (void)self; /* nothing is recorded until processes are watched */
    return 0;
}

/* The clock runs only while it has something to sample: each tick costs, on idle CPUs as well. */
static void set_clock(struct waits_source *s)
{
    const bool ticks = s->clock && s->is_watching && !s->is_shed;
    if (ticks == s->is_ticking)
        return;
    s->is_ticking = (ticks ? perf_events_enable(s->clock) : perf_events_disable(s->clock)) == 0 && ticks;
}

/* A process that stays keeps its place: its threads are recorded all the time. */
void waits_source_watch(void *waits_source, const uint32_t *pids, size_t count)
{
    struct waits_source *s = waits_source;
    uint32_t lines[WAITS_LINES][WAITS_WAYS] = {0};
    for (size_t i = 0; i < count; i++)
        for (size_t way = 0; way < WAITS_WAYS; way++) {
            uint32_t *place = &lines[pids[i] % WAITS_LINES][way];
            if (*place && *place != pids[i])
                continue;
            *place = pids[i];
            break;
        }
    for (size_t line = 0; line < WAITS_LINES; line++)
        for (size_t way = 0; way < WAITS_WAYS; way++)
            s->bpf->bss->watched[line][way] = lines[line][way];
    s->is_watching = count > 0;
    set_clock(s);
}

static size_t waits_poll_fds(void *self, int *ret_fds, size_t max)
{
    struct waits_source *s = self;
    if (max == 0)
        return 0;
    ret_fds[0] = record_ring_poll_fd(&s->ring);
    return 1;
}

static int waits_drain(void *self, struct batch *batch)
{
    struct waits_source *s = self;
    if (s->clock && perf_events_follow(s->clock, clock_monotonic_ns()) < 0)
        s->unfollowed++; /* tried again; waits, and the samples of other CPUs, go on */
    return record_ring_drain(&s->ring, batch);
}

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "stacks of servers where they wait and run"},
    {SOURCE_DETAIL_NO_WAIT_STACKS, "no stacks of servers where they wait and run"},
    {0},
};

static int waits_shed(void *self, enum source_detail detail)
{
    struct waits_source *s = self;
    const bool is_shed = detail >= SOURCE_DETAIL_NO_WAIT_STACKS;
    if (is_shed == s->is_shed)
        return 0;
    s->is_shed = is_shed;
    set_clock(s);
    if (!is_shed)
        return waits_bpf__attach(s->bpf);
    waits_bpf__detach(s->bpf);
    return 0;
}

/* ---- statistics ---- */

static struct waits_stats read_stats(struct waits_source *s)
{
    struct waits_stats sum = {0};
    map_sum_counters(bpf_map__fd(s->bpf->maps.stats), &sum, sizeof(sum));
    return sum;
}

static void waits_losses(void *self, struct losses *losses)
{
    struct waits_source *s = self;
    const struct waits_stats sum = read_stats(s);
    losses->count[LOSS_RING_FULL] += sum.lost;
    losses->count[LOSS_SHED] += sum.shed + sum.samples_shed;
    losses->count[LOSS_INTERPRETED] += sum.interpreted_lost;
    losses->count[LOSS_MISSED] += missed_runs(s->bpf->obj) + sum.interrupted + s->unfollowed;
    record_ring_losses(&s->ring, losses);
}

static void waits_metrics(void *self, struct metric_set *set)
{
    static const char *const names[WAITS_TIMERS] = {"waits", "server_samples"};
    struct waits_source *s = self;
    const struct waits_stats sum = read_stats(s);
    const struct {
        const char *result;
        uint64_t count;
    } rows[] = {{"recorded", sum.waits}, {"over_rate", sum.over_rate}, {"shed", sum.shed}, {"lost", sum.lost}};
    const struct {
        const char *result;
        uint64_t count;
    } sample_rows[] = {{"recorded", sum.samples},
                       {"over_rate", sum.samples_over_rate},
                       {"shed", sum.samples_shed},
                       {"interrupted", sum.interrupted}};
    for (size_t i = 0; i < array_size(rows); i++)
        metric_add(
            set, "sonde_self_server_waits", METRIC_COUNTER, "",
            "Waits of at least 1 ms of the threads of servers, and shorter ones after a run of 3 ms, by result: "
            "recorded with their stack; over_rate: more than 1,000 a second; shed: the CPU time for stacks was used "
            "up; lost.",
            (double)rows[i].count, METRIC_LABELS({"result", rows[i].result}));
    for (size_t i = 0; i < array_size(sample_rows); i++)
        metric_add(set, "sonde_self_server_samples", METRIC_COUNTER, "",
                   "CPU samples of servers as evidence for requests, by result: recorded with their stack; over_rate: "
                   "more than 1,000 a second; shed: the CPU time for stacks was used up; interrupted: the stack of "
                   "another thread was just being walked on that CPU.",
                   (double)sample_rows[i].count, METRIC_LABELS({"result", sample_rows[i].result}));
    metric_add(set, "sonde_self_server_wait_stacks", METRIC_COUNTER, "",
               "Stacks sent for waits and samples of servers: the same stack of a process once in 5 seconds.",
               (double)sum.stacks, METRIC_NO_LABELS);
    run_timers_put(s->bpf->bss->run_timers, names, WAITS_TIMERS, set);
}

static uint64_t waits_run_time_ns(void *self)
{
    const struct waits_source *s = self;
    return run_timers_ns(s->bpf->bss->run_timers, WAITS_TIMERS);
}

static size_t waits_memory_bytes(void *self)
{
    const struct waits_source *s = self;
    return shared_tables_bytes_beside(s->tables, s->bpf->obj);
}

const struct source source_waits = {
    .name = "waits",
    .help = "where threads of servers wait and run, to explain requests",
    .open = waits_open,
    .start = waits_start,
    .poll_fds = waits_poll_fds,
    .drain = waits_drain,
    .losses = waits_losses,
    .metrics = waits_metrics,
    .memory_bytes = waits_memory_bytes,
    .run_time_ns = waits_run_time_ns,
    .levels = levels,
    .shed = waits_shed,
    .free = waits_free,
};
