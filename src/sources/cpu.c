/* CPU samples: loads probes/cpu.bpf.c, runs it on a clock event of every CPU, and brings its records to the
 * batch. Also owns the unwinding tables that the program walks by. Loses what the program counts (struct
 * cpu_stats) and what the kernel withholds. */
#include "sources/cpu_filters.h"
#include "sources/map_sizes.h"
#include "sources/missed_runs.h"
#include "sources/perf_events.h"
#include "sources/source.h"
#include "sources/unwind_tables_private.h"

#include "base/clock.h"

#include "../../probes/cpu.h"
#include "cpu.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#define THROTTLE_RING  16384 /* of a CPU that is throttled in each tick, more than a second */
#define NS_PER_SECOND  1000000000ULL
/* Kernels whose hash tables must hold all their entries from the start get fewer. */
#define PROCESSES_MAX_PREALLOC 2048
#define CHUNKS_MAX_PREALLOC    3072

struct cpu_source {
    struct cpu_bpf *skeleton;
    struct perf_events *events;
    struct ring_buffer *ring;
    struct unwind_tables *tables;
    struct batch *batch; /* only during a drain */
    uint64_t period_ns;
    uint64_t *throttled_since_ns; /* one a possible CPU; 0: not throttled */
    unsigned shed_factor;         /* of every so many samples one is taken */
    uint64_t shed_mark, shed;     /* samples when the factor last changed; samples left out before */
    uint64_t throttled, batch_full, undecodable;
    size_t fixed_bytes;      /* maps whose size never changes */
    struct cpu_stats *stats; /* one a possible CPU */
    int cpu_count;
};

static void cpu_free(void *self)
{
    struct cpu_source *s = self;

    if (!s)
        return;
    perf_events_free(s->events);
    ring_buffer__free(s->ring);
    unwind_tables_free(s->tables);
    cpu_bpf__destroy(s->skeleton);
    free(s->stats);
    free(s->throttled_since_ns);
    free(s);
}

static void cpu_freep(struct cpu_source **s)
{
    cpu_free(*s);
}

static void leave_out_map(struct bpf_map *map, bool wanted)
{
    if (!wanted)
        (void)bpf_map__set_autocreate(map, false);
}

static int set_up(struct cpu_bpf *k, const struct source_options *options, int cpu_count, bool prealloc)
{
    struct bpf_map *processes = k->maps.unwind_processes, *chunks = k->maps.unwind_chunks;
    bool pids = options->pid_count > 0;
    int r;

    k->bss->weight_ns = NS_PER_SECOND / options->sample_hz;
    k->rodata->skip_pid = options->skip_self ? (uint32_t)getpid() : 0;
    k->rodata->filter_pids = pids;
    k->rodata->filter_cgroups = options->cgroup_count > 0;
    k->rodata->filter_commands = options->command_count > 0;
    k->rodata->cgroup_hierarchy = (int)cpu_filters_cgroups();
    k->rodata->ring_bytes = map_sizes_ring(options->ring_bytes);
    k->rodata->links = options->links;
    leave_out_map(k->maps.thread_links, options->links);
    leave_out_map(k->maps.followed, pids);
    leave_out_map(k->maps.cgroups, options->cgroup_count > 0);
    leave_out_map(k->maps.commands, options->command_count > 0);
    bpf_program__set_autoload(k->progs.follow_fork, pids);
    bpf_program__set_autoload(k->progs.follow_free, pids);

    r = bpf_map__set_max_entries(k->maps.records, (uint32_t)map_sizes_ring(options->ring_bytes));
    if (r == 0)
        r = bpf_map__set_max_entries(k->maps.unwind_scratch, (uint32_t)cpu_count);
    if (r == 0)
        r = bpf_map__set_max_entries(k->maps.python_scratch, (uint32_t)cpu_count);
    if (r == 0)
        r = bpf_map__set_max_entries(processes, prealloc ? PROCESSES_MAX_PREALLOC : UNWIND_TABLES_PROCESSES_MAX);
    if (r == 0)
        r = bpf_map__set_max_entries(chunks, prealloc ? CHUNKS_MAX_PREALLOC : UNWIND_TABLES_CHUNKS_MAX);
    if (r == 0 && options->links)
        r = bpf_map__reuse_fd(k->maps.thread_links, options->links_fd);
    if (r == 0 && prealloc)
        r = bpf_map__set_map_flags(processes, 0) ?: bpf_map__set_map_flags(chunks, 0);
    return r;
}

/* Kernels before 6.1 refuse tables that allocate as they grow in programs of perf events. */
static int load(const struct source_options *options, int cpu_count, struct cpu_bpf **ret)
{
    int r = -EINVAL;

    libbpf_set_print(NULL);
    for (int prealloc = 0; prealloc <= 1; prealloc++) {
        struct cpu_bpf *k = cpu_bpf__open();

        if (!k)
            return -errno;
        r = set_up(k, options, cpu_count, prealloc);
        if (r == 0)
            r = cpu_bpf__load(k);
        if (r == 0) {
            *ret = k;
            return 0;
        }
        cpu_bpf__destroy(k);
        if (r == -EPERM)
            return r;
    }
    return r;
}

static int follow_children(struct cpu_bpf *k)
{
    k->links.follow_fork = bpf_program__attach(k->progs.follow_fork);
    if (!k->links.follow_fork)
        return -errno;
    k->links.follow_free = bpf_program__attach(k->progs.follow_free);
    return k->links.follow_free ? 0 : -errno;
}

static int attach(struct cpu_source *s, const struct source_options *options)
{
    const struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = s->period_ns,
        .sample_id_all = 1,
        .exclude_idle = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .wakeup_events = UINT32_MAX, /* its ring holds notices of throttling only */
    };
    int r = 0;

    if (options->pid_count > 0)
        r = follow_children(s->skeleton);
    if (r == 0)
        r = cpu_filters_fill(options, bpf_map__fd(s->skeleton->maps.followed),
                             bpf_map__fd(s->skeleton->maps.cgroups), bpf_map__fd(s->skeleton->maps.commands));
    if (r == 0)
        r = perf_events_open(&attr, bpf_program__fd(s->skeleton->progs.cpu_sample), THROTTLE_RING,
                             &s->events);
    return r;
}

static int take_record(void *context, void *data, size_t size)
{
    struct cpu_source *s = context;
    int r = batch_add_bytes(s->batch, data, size);

    if (r == -EBADMSG)
        s->undecodable++;
    else if (r < 0)
        s->batch_full++;
    return batch_takes_samples(s->batch) ? 0 : -ENOSPC;
}

static int make_tables(struct cpu_source *s, const struct source_options *options)
{
    s->ring = ring_buffer__new(bpf_map__fd(s->skeleton->maps.records), take_record, s, NULL);
    if (!s->ring)
        return -errno;
    return unwind_tables_new(s->skeleton->obj, options->table_bytes, &s->tables);
}

static void count_fixed_bytes(struct cpu_source *s)
{
    struct bpf_map *map;

    bpf_object__for_each_map(map, s->skeleton->obj)
    {
        if (bpf_map__fd(map) >= 0 && map != s->skeleton->maps.thread_links) /* that one is the links' */
            s->fixed_bytes += map_sizes_bytes(map, s->cpu_count);
    }
}

static int cpu_open(const struct source_options *options, struct attach_report *report, void **ret_self)
{
    __attribute__((cleanup(cpu_freep))) struct cpu_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "cpu samples");
    static const char rung[] = "perf event, cpu-clock";
    int r;

    if (!s)
        return -ENOMEM;
    if (options->sample_hz == 0 || options->sample_hz > 100000)
        return -EINVAL;
    s->period_ns = NS_PER_SECOND / options->sample_hz;
    s->shed_factor = 1;
    s->cpu_count = libbpf_num_possible_cpus();
    if (s->cpu_count <= 0)
        return -ENODEV;
    s->stats = calloc((size_t)s->cpu_count, sizeof(*s->stats));
    s->throttled_since_ns = calloc((size_t)s->cpu_count, sizeof(*s->throttled_since_ns));
    if (!s->stats || !s->throttled_since_ns)
        return -ENOMEM;
    r = load(options, s->cpu_count, &s->skeleton);
    if (r == 0)
        r = make_tables(s, options);
    if (r == 0)
        r = attach(s, options);
    if (r < 0) {
        attach_entry_refused(entry, rung, r);
        snprintf(entry->truth, sizeof(entry->truth), "no profile");
        return r;
    }
    count_fixed_bytes(s);
    entry->attached = true;
    snprintf(entry->rung, sizeof(entry->rung), "%s", rung);
    snprintf(entry->truth, sizeof(entry->truth),
             "kernel code that runs with interrupts off is seen where it switches them on again");
    *ret_self = take_ptr(s);
    return 0;
}

static int cpu_start(void *self)
{
    struct cpu_source *s = self;

    return perf_events_enable(s->events);
}

static size_t cpu_poll_fds(void *self, int *ret_fds, size_t max)
{
    struct cpu_source *s = self;

    if (max == 0)
        return 0;
    ret_fds[0] = ring_buffer__epoll_fd(s->ring);
    return 1;
}

/* A throttled event is silent until the kernel says otherwise: as many samples as would have come in between
 * are lost, if the CPU was not idle. Nobody can say how many of them the filters would have left out. */
static int take_notice(void *context, unsigned cpu, const struct perf_event_header *record)
{
    const struct {
        struct perf_event_header header;
        uint64_t time_ns;
    } *notice = (const void *)record;
    struct cpu_source *s = context;
    uint64_t *since_ns = cpu < (unsigned)s->cpu_count ? &s->throttled_since_ns[cpu] : NULL;

    if (record->type == PERF_RECORD_THROTTLE) {
        s->throttled++;
        if (since_ns)
            *since_ns = notice->time_ns;
    } else if (record->type == PERF_RECORD_UNTHROTTLE && since_ns && *since_ns) {
        s->throttled += (notice->time_ns - *since_ns) / (s->period_ns * s->shed_factor);
        *since_ns = 0;
    }
    return 0;
}

static int cpu_drain(void *self, struct batch *batch)
{
    struct cpu_source *s = self;
    int r, followed;

    s->batch = batch;
    r = ring_buffer__consume(s->ring);
    s->batch = NULL;
    (void)perf_events_read(s->events, take_notice, s);
    followed = perf_events_follow(s->events, clock_monotonic_ns());
    if (r < 0 && r != -ENOSPC)
        return r;
    return followed < 0 ? followed : 0;
}

static struct cpu_stats read_stats(struct cpu_source *s)
{
    struct cpu_stats sum = {0};
    uint32_t zero = 0;

    if (bpf_map_lookup_elem(bpf_map__fd(s->skeleton->maps.stats), &zero, s->stats) < 0)
        return sum;
    for (int i = 0; i < s->cpu_count; i++) {
        sum.runs += s->stats[i].runs;
        sum.run_time_ns += s->stats[i].run_time_ns;
        sum.samples += s->stats[i].samples;
        sum.ring_full += s->stats[i].ring_full;
        sum.no_room += s->stats[i].no_room;
        sum.copies_refused += s->stats[i].copies_refused;
        sum.links_lost += s->stats[i].links_lost;
        sum.interpreted_lost += s->stats[i].interpreted_lost;
    }
    return sum;
}

static uint64_t count_shed(const struct cpu_source *s, const struct cpu_stats *sum)
{
    return s->shed + (sum->runs - s->shed_mark) * (s->shed_factor - 1);
}

static int cpu_shed(void *self, enum source_detail detail)
{
    struct cpu_source *s = self;
    unsigned factor = source_detail_samples_every(detail);
    struct cpu_stats sum = read_stats(s);
    int r;

    s->skeleton->bss->no_copies = detail == SOURCE_DETAIL_LEAST;
    if (factor == s->shed_factor)
        return 0;
    r = perf_events_set_period(s->events, s->period_ns * factor);
    if (r < 0)
        return r;
    s->skeleton->bss->weight_ns = s->period_ns * factor;
    s->shed = count_shed(s, &sum);
    s->shed_mark = sum.runs;
    s->shed_factor = factor;
    return 0;
}

static uint64_t cpu_run_time_ns(void *self)
{
    return read_stats(self).run_time_ns;
}

static void cpu_losses(void *self, struct losses *losses)
{
    struct cpu_source *s = self;
    struct cpu_stats sum = read_stats(s);

    losses->count[LOSS_RING_FULL] += sum.ring_full + s->batch_full;
    losses->count[LOSS_MAP_FULL] += s->skeleton->bss->followed_full + sum.no_room;
    losses->count[LOSS_UNLINKED] += sum.links_lost;
    losses->count[LOSS_INTERPRETED] += sum.interpreted_lost;
    losses->count[LOSS_MISSED] += missed_runs(s->skeleton->obj);
    losses->count[LOSS_THROTTLED] += s->throttled;
    losses->count[LOSS_SHED] += count_shed(s, &sum);
    losses->count[LOSS_DECODE] += s->undecodable;
}

static size_t cpu_memory_bytes(void *self)
{
    struct cpu_source *s = self;

    return s->fixed_bytes + unwind_tables_bytes(s->tables) + perf_events_bytes(s->events);
}

static void cpu_metrics(void *self, struct metric_set *set)
{
    struct cpu_source *s = self;
    struct cpu_stats sum = read_stats(s);

    metric_add(set, "sonde_self_bpf_run_time_seconds", METRIC_COUNTER, "seconds",
               "CPU time spent in BPF programs of ours", (double)sum.run_time_ns / 1e9,
               METRIC_LABELS({"program", "cpu_sample"}));
    metric_add(set, "sonde_self_bpf_runs", METRIC_COUNTER, "", "Runs of BPF programs of ours",
               (double)sum.runs, METRIC_LABELS({"program", "cpu_sample"}));
    metric_add(set, "sonde_self_cpu_samples", METRIC_COUNTER, "", "CPU samples written by the kernel half",
               (double)sum.samples, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_stack_copies_refused", METRIC_COUNTER, "",
               "User stacks not copied for later because the ring was half full", (double)sum.copies_refused,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_unwind_tables_bytes", METRIC_GAUGE, "bytes",
               "Kernel memory held by unwinding tables", (double)unwind_tables_bytes(s->tables),
               METRIC_NO_LABELS);
}

struct unwind_tables *cpu_source_unwind_tables(void *cpu_source)
{
    return ((struct cpu_source *)cpu_source)->tables;
}

void cpu_source_tell_again(void *cpu_source, uint32_t pid, uint64_t code, uint32_t check)
{
    const struct cpu_source *s = cpu_source;
    const uint32_t place = python_told_place(python_told_hash(pid, code, check));
    const uint64_t nothing = 0;

    (void)bpf_map_update_elem(bpf_map__fd(s->skeleton->maps.python_told), &place, &nothing, BPF_ANY);
}

const struct source source_cpu = {
    .name = "cpu",
    .help = "CPU samples with kernel and user stacks",
    .open = cpu_open,
    .start = cpu_start,
    .poll_fds = cpu_poll_fds,
    .drain = cpu_drain,
    .losses = cpu_losses,
    .metrics = cpu_metrics,
    .memory_bytes = cpu_memory_bytes,
    .run_time_ns = cpu_run_time_ns,
    .shed = cpu_shed,
    .free = cpu_free,
};
