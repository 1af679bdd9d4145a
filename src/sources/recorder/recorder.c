/* Loads probes/recorder.bpf.c, enables and disables recording, and exports what the rings hold. It has no event
 * records. */
#include "sources/recorder/recorder.h"

#include "sources/attach/map_access.h"
#include "sources/attach/map_walk.h"
#include "sources/attach/missed_runs.h"
#include "sources/attach/preempt_count.h"
#include "sources/attach/trace_parameters.h"
#include "sources/run_timers.h"
#include "sources/tables/flight_recorder.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include "probes/common/run_timer.h"
#include "probes/recorder/recorder_timer.h"
#include "recorder.skel.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct recorder_source {
    struct recorder_bpf *bpf;
    const struct shared_tables *tables;
    struct flight_recorder *recorder; /* of the shared tables */
    bool is_detailed;                 /* as in struct recorder_options */
    bool is_started, is_shed;
};

static void recorder_free(void *self)
{
    struct recorder_source *s = self;
    if (!s)
        return;
    if (s->recorder)
        flight_recorder_enable(s->recorder, false);
    recorder_bpf__destroy(s->bpf);
    free(s);
}

static void recorder_freep(struct recorder_source **s)
{
    recorder_free(*s);
}

/* ---- opening ---- */

/* Which requests of block devices the kernel's tracepoints pass; other requests are not recorded. */
struct disk_requests {
    bool are_passed, behind_queue;
};

static struct disk_requests find_disk_requests(void)
{
    struct btf *kernel = btf__load_vmlinux_btf();
    struct disk_requests d = {0};
    d.are_passed = kernel && trace_passes_block_requests(kernel, &d.behind_queue);
    btf__free(kernel);
    return d;
}

static void choose_disk(struct recorder_bpf *bpf, struct disk_requests d)
{
    bpf->rodata->issue_passes_queue = d.behind_queue;
    bpf_program__set_autoload(bpf->progs.recorder_request_queued, d.are_passed);
    bpf_program__set_autoload(bpf->progs.recorder_request_issued, d.are_passed);
    bpf_program__set_autoload(bpf->progs.recorder_request_ended, d.are_passed);
}

static int load_programs(const struct recorder_source *s, bool has_task_registers, bool has_pages,
                         struct disk_requests disk, struct recorder_bpf **ret)
{
    struct recorder_bpf *bpf = recorder_bpf__open();
    if (!bpf)
        return -errno;
    bpf->rodata->has_task_registers = has_task_registers;
    bpf->rodata->has_tasks = shared_tables_has_tasks(s->tables);
    bpf->rodata->is_detailed = s->is_detailed;
    bpf_program__set_autoload(bpf->progs.recorder_page, has_pages);
    choose_disk(bpf, disk);
    const struct preempt_count count = preempt_count_find();
    bpf->rodata->preempt_count_distance = count.distance;
    bpf->rodata->has_rdonly_cast = count.has_rdonly_cast;
    int r = shared_tables_use(s->tables, bpf->obj) ?: recorder_bpf__load(bpf) ?: recorder_bpf__attach(bpf);
    if (r < 0)
        recorder_bpf__destroy(bpf);
    else
        *ret = bpf;
    return r;
}

static void report_limitations(const struct recorder_bpf *bpf, struct attach_entry *entry)
{
    const char *interrupts =
        bpf->rodata->preempt_count_distance ? "" : "wake-ups by interrupts count as wake-ups by the interrupted thread";
    const char *pages =
        bpf_program__autoload(bpf->progs.recorder_page) ? "" : "which file a page fault waits for is not known";
    const char *disks =
        bpf_program__autoload(bpf->progs.recorder_request_ended) ? "" : "requests of block devices are not recorded";
    const char *const all[] = {interrupts, pages, disks};
    for (size_t i = 0; i < array_size(all); i++)
        attach_entry_limited(entry, all[i]);
}

static int open_programs(struct recorder_source *s, const struct source_services *services, struct attach_entry *entry)
{
    static const struct {
        const char *name;
        bool has_task_registers, has_pages;
    } methods[] = {{"tracepoints", true, true},
                   {"tracepoints, no page cache", true, false},
                   {"tracepoints, registers found by their place", false, true},
                   {"tracepoints, registers by place, no page cache", false, false}};
    int r = -ENOTSUP;
    s->recorder = shared_tables_recorder(services->tables);
    if (!s->recorder) {
        attach_entry_refused(entry, "rings in mapped memory", -ENOMEM);
        return -ENOMEM;
    }
    libbpf_set_print(NULL);
    const struct disk_requests disk = find_disk_requests();
    for (size_t i = 0; i < array_size(methods); i++) {
        r = load_programs(s, methods[i].has_task_registers, methods[i].has_pages, disk, &s->bpf);
        if (r == 0) {
            snprintf(entry->method, sizeof(entry->method), "%s", methods[i].name);
            return 0;
        }
        attach_entry_refused(entry, methods[i].name, r);
    }
    return r;
}

static int recorder_open(const struct source_services *services, const void *options, struct attach_report *report,
                         void **ret_self)
{
    _cleanup_(recorder_freep) struct recorder_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "flight recorder");
    if (!s)
        return -ENOMEM;
    s->tables = services->tables;
    s->is_detailed = options && ((const struct recorder_options *)options)->is_detailed;
    int r = open_programs(s, services, entry);
    if (r < 0) {
        snprintf(entry->limitation, sizeof(entry->limitation), "slow requests are explained without the other threads");
        return r;
    }
    entry->attached = true;
    report_limitations(s->bpf, entry);
    *ret_self = take_ptr(s);
    return 0;
}

/* ---- recording ---- */

static int recorder_start(void *self)
{
    struct recorder_source *s = self;
    s->is_started = true;
    flight_recorder_enable(s->recorder, !s->is_shed);
    return 0;
}

static int recorder_stop(void *self)
{
    struct recorder_source *s = self;
    s->is_started = false;
    flight_recorder_enable(s->recorder, false);
    return 0;
}

/* Nothing to drain: the rings are read on demand. */
static int recorder_drain(void *self, struct batch *batch)
{
    (void)self, (void)batch;
    return 0;
}

/* The hooks cause most of the cost, so shedding detaches from them. */
static int recorder_shed(void *self, enum source_detail detail)
{
    struct recorder_source *s = self;
    const bool is_shed = detail >= SOURCE_DETAIL_LEAST;
    int r = 0;
    if (is_shed == s->is_shed)
        return 0;
    if (is_shed)
        recorder_bpf__detach(s->bpf);
    else
        r = recorder_bpf__attach(s->bpf);
    if (r < 0)
        return r;
    s->is_shed = is_shed;
    flight_recorder_enable(s->recorder, s->is_started && !is_shed);
    return 0;
}

static bool recorder_is_enabled(void *self)
{
    return flight_recorder_is_enabled(((const struct recorder_source *)self)->recorder);
}

void recorder_source_take_gil_waits(void *recorder_source, void (*take)(void *context, uint32_t pid, uint64_t ns),
                                    void *context)
{
    const struct recorder_source *s = recorder_source;
    const int fd = bpf_map__fd(s->bpf->maps.recorder_gil_waits);
    _cleanup_(map_walk_end) struct map_walk walk;
    uint32_t pid;
    uint64_t ns;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &pid, NULL);)
        if (map_take_element(fd, &pid, &ns))
            take(context, pid, ns);
}

/* ---- statistics ---- */

static void recorder_losses(void *self, struct losses *losses)
{
    losses->count[LOSS_MISSED] += missed_runs(((const struct recorder_source *)self)->bpf->obj);
}

static uint64_t recorder_run_time_ns(void *self)
{
    const struct recorder_source *s = self;
    return run_timers_ns(s->bpf->bss->run_timers, RECORDER_TIMERS);
}

static void recorder_metrics(void *self, struct metric_set *set)
{
    static const char *const names[RECORDER_TIMERS] = {"recorder_switch", "recorder_waking", "recorder_exit",
                                                       "recorder_page", "recorder_disk"};
    const struct recorder_source *s = self;
    const struct flight_recorder_stats stats = flight_recorder_stats(s->recorder, clock_monotonic_ns());
    static const char records[] = "Records that the flight recorder wrote, by ring.";
    metric_add(set, "sonde_recorder_records", METRIC_COUNTER, "", records, (double)stats.scheduler_records,
               METRIC_LABELS({"ring", "scheduler"}));
    metric_add(set, "sonde_recorder_records", METRIC_COUNTER, "", records, (double)stats.object_records,
               METRIC_LABELS({"ring", "objects"}));
    metric_add(set, "sonde_recorder_history_seconds", METRIC_GAUGE, "seconds",
               "How far back the flight recorder is complete on all CPUs.", (double)stats.history_ns / 1e9,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_recorder_windows", METRIC_COUNTER, "", "Intervals read from the flight recorder.",
               (double)stats.windows, METRIC_NO_LABELS);
    metric_add(set, "sonde_recorder_windows_overwritten", METRIC_COUNTER, "",
               "Intervals whose beginning had been overwritten.", (double)stats.windows_overwritten, METRIC_NO_LABELS);
    run_timers_put(s->bpf->bss->run_timers, names, RECORDER_TIMERS, set);
}

/* Without the rings, which are the shared tables'. */
static size_t recorder_memory_bytes(void *self)
{
    const struct recorder_source *s = self;
    return shared_tables_bytes_beside(s->tables, s->bpf->obj);
}

const struct source source_recorder = {
    .name = "recorder",
    .help = "what threads and sockets did in the last seconds, to explain slow requests",
    .open = recorder_open,
    .start = recorder_start,
    .stop = recorder_stop,
    .drain = recorder_drain,
    .is_enabled = recorder_is_enabled,
    .losses = recorder_losses,
    .metrics = recorder_metrics,
    .memory_bytes = recorder_memory_bytes,
    .run_time_ns = recorder_run_time_ns,
    .shed = recorder_shed,
    .free = recorder_free,
};
