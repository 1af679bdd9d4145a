/* CPU samples: loads probes/cpu.bpf.c (cpu_load.c), attaches it to a clock event on every CPU or to the requested
 * event, and drains its records into the batch. Reports as losses the events that the
 * program counts (struct cpu_stats) and events that the kernel withholds: for events counted per CPU, the events
 * without a run of the program. */
#include "sources/cpu/cpu.h"

#include "sources/attach/map_sizes.h"
#include "sources/attach/missed_runs.h"
#include "sources/attach/perf_events.h"
#include "sources/attach/sample_event.h"
#include "sources/attach/tracepoint.h"
#include "sources/cpu/cpu_load.h"
#include "sources/cpu/gpu_probes.h"
#include "sources/events/record_ring.h"
#include "sources/sampling/sampling_rules.h"
#include "sources/source.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/units.h"

#include "probes/common/task_filter.h"

#include "cpu.skel.h"
#include "probes/cpu.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#define THROTTLE_RING 16384 /* more than a second of notices from a CPU throttled at each tick */
#define NS_PER_SECOND 1000000000ULL
#define LIMIT_PATH    "/proc/sys/kernel/perf_event_max_sample_rate"
#define LIMIT_HZ      100000 /* default of the sysctl */

struct cpu_source {
    struct cpu_bpf *skeleton;
    struct perf_events *events;           /* NULL: the event is not counted per CPU */
    struct bpf_link *tracepoint_links[2]; /* tracepoint attachments; NULL: none */
    struct user_probes *probes;
    struct gpu_probes *gpu;
    bool is_event, is_software; /* an event, not the clock; counted in software by the kernel */
    uint64_t limit_hz;          /* lower bound for the rate of an event while it is throttled */
    uint64_t *values;           /* per possible CPU: the count of its event */
    struct record_ring ring;
    const struct shared_tables *tables;
    uint32_t sample_hz, clock_hz; /* of tasks without a rule; of the clock */
    uint64_t period_ns;           /* sampling period in ns or events; 0: the value is the event's own bytes */
    uint64_t *throttled_since_ns; /* per possible CPU; 0: not throttled */
    unsigned shed_factor;         /* one sample in this many is taken */
    uint64_t shed_mark, shed;     /* samples taken when the factor last changed; samples shed before that */
    uint64_t throttled;
    size_t fixed_bytes;      /* memory of maps of constant size */
    struct cpu_stats *stats; /* per possible CPU */
    int cpu_count;
};

static void cpu_free(void *self)
{
    struct cpu_source *s = self;

    if (!s)
        return;
    perf_events_free(s->events);
    for (size_t i = 0; i < array_size(s->tracepoint_links); i++)
        bpf_link__destroy(s->tracepoint_links[i]);
    user_probes_free(s->probes);
    gpu_probes_free(s->gpu);
    record_ring_close(&s->ring);
    cpu_bpf__destroy(s->skeleton);
    free(s->stats);
    free(s->values);
    free(s->throttled_since_ns);
    free(s);
}

static void cpu_freep(struct cpu_source **s)
{
    cpu_free(*s);
}

static int attach_counted(struct cpu_source *s, const struct sample_event *event)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = s->period_ns,
        .sample_id_all = 1,
        .exclude_idle = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .wakeup_events = UINT32_MAX, /* the ring holds throttle notices only */
    };

    if (event)
        sample_event_attr(event, &attr);
    return perf_events_open(&attr, bpf_program__fd(s->skeleton->progs.cpu_sample), THROTTLE_RING, &s->events);
}

static int attach_brk(struct cpu_source *s)
{
    int r = tracepoint_attach(s->skeleton->progs.event_brk_enter, "syscalls", "sys_enter_brk", &s->tracepoint_links[0]);

    return r < 0 ? r
                 : tracepoint_attach(s->skeleton->progs.event_brk, "syscalls", "sys_exit_brk", &s->tracepoint_links[1]);
}

static int attach_event(struct cpu_source *s, const struct sample_event *event)
{
    switch (event->kind) {
    case SAMPLE_EVENT_TRACEPOINT:
        return tracepoint_attach(s->skeleton->progs.event_tracepoint, event->group, event->member,
                                 &s->tracepoint_links[0]);
    case SAMPLE_EVENT_USER_PROBE:
        return user_probes_attach(s->skeleton->progs.event_user_probe, event->sites, event->site_count, &s->probes);
    case SAMPLE_EVENT_MMAP:
        return tracepoint_attach(s->skeleton->progs.event_mmap, "syscalls", "sys_exit_mmap", &s->tracepoint_links[0]);
    case SAMPLE_EVENT_BRK:
        return attach_brk(s);
    case SAMPLE_EVENT_GPU:
        return gpu_probes_attach(s->skeleton, event, &s->gpu);
    case SAMPLE_EVENT_SOFTWARE:
    case SAMPLE_EVENT_HARDWARE:
        break;
    }
    return attach_counted(s, event);
}

static uint64_t read_limit_hz(void)
{
    _cleanup_buf_ struct buf text = {0};
    int64_t hz;

    if (buf_read_file(&text, LIMIT_PATH, 64) < 0 || !text.data)
        return LIMIT_HZ;
    text.data[strcspn(text.data, "\n")] = '\0';
    return units_parse_integer(text.data, 1, UINT32_MAX, &hz) == 0 ? (uint64_t)hz : LIMIT_HZ;
}

static int allocate_per_cpu(struct cpu_source *s)
{
    s->cpu_count = libbpf_num_possible_cpus();
    if (s->cpu_count <= 0)
        return -ENODEV;
    s->stats = calloc((size_t)s->cpu_count, sizeof(*s->stats));
    s->values = calloc((size_t)s->cpu_count, sizeof(*s->values));
    s->throttled_since_ns = calloc((size_t)s->cpu_count, sizeof(*s->throttled_since_ns));
    return s->stats && s->values && s->throttled_since_ns ? 0 : -ENOMEM;
}

static const char *limitation_of(const struct sample_event *event)
{
    if (!event)
        return "kernel code with interrupts disabled is sampled where it enables them again";
    return event->kind == SAMPLE_EVENT_HARDWARE ? "the stack is taken a few instructions later" : "";
}

static int cpu_open(const struct source_services *services, const void *options, struct attach_report *report,
                    void **ret_self)
{
    __attribute__((cleanup(cpu_freep))) struct cpu_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "CPU samples");
    char method[sizeof(entry->method)];
    int r;

    (void)options;
    if (!s)
        return -ENOMEM;
    s->tables = services->tables;
    const uint32_t clock_hz = sampling_rules_clock_hz(services->rules, services->sample_hz);
    if (clock_hz == 0 || clock_hz > 100000)
        return -EINVAL;
    s->sample_hz = services->sample_hz;
    s->clock_hz = clock_hz;
    snprintf(method, sizeof(method), "perf event, %.32s", services->event ? services->event->name : "cpu-clock");
    s->period_ns = cpu_weight(services);
    s->is_event = services->event;
    s->is_software = services->event && services->event->kind == SAMPLE_EVENT_SOFTWARE;
    s->limit_hz = read_limit_hz();
    s->shed_factor = 1;
    r = allocate_per_cpu(s);
    if (r < 0)
        return r;
    r = cpu_load(services, s->cpu_count, &s->skeleton);
    if (r == 0)
        r = record_ring_open(&s->ring, bpf_map__fd(s->skeleton->maps.records));
    if (r == 0)
        r = services->event ? attach_event(s, services->event) : attach_counted(s, NULL);
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "no profile");
        return r;
    }
    s->fixed_bytes = shared_tables_bytes_beside(s->tables, s->skeleton->obj);
    if (!s->is_event)
        shared_tables_set_sampler(services->tables, bpf_program__fd(s->skeleton->progs.cpu_sample));
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    snprintf(entry->limitation, sizeof(entry->limitation), "%s", limitation_of(services->event));
    *ret_self = take_ptr(s);
    return 0;
}

static int cpu_start(void *self)
{
    struct cpu_source *s = self;

    s->skeleton->bss->enabled = 1;
    if (s->gpu)
        return gpu_probes_start(s->gpu);
    return s->events ? perf_events_enable(s->events) : 0;
}

/* The clock keeps running until free: stopping it earlier gains nothing. Other events may arrive faster than they are
 * drained. */
static int cpu_stop(void *self)
{
    struct cpu_source *s = self;

    if (!s->is_event)
        return 0;
    s->skeleton->bss->enabled = 0;
    if (s->gpu)
        return gpu_probes_stop(s->gpu);
    if (s->probes && !user_probes_are_on(s->probes))
        return -ECHILD;
    return s->events ? perf_events_disable(s->events) : 0;
}

static size_t cpu_poll_fds(void *self, int *ret_fds, size_t max)
{
    struct cpu_source *s = self;

    if (max == 0)
        return 0;
    ret_fds[0] = record_ring_poll_fd(&s->ring);
    return 1;
}

/* Samples lost while throttled for `for_ns`: ticks of the clock. Another event is throttled because it reached the
 * rate limit, so this is a lower bound for it. */
static uint64_t samples_withheld(const struct cpu_source *s, uint64_t for_ns)
{
    if (s->is_event)
        return for_ns * s->limit_hz / NS_PER_SECOND;
    return for_ns / (s->period_ns * s->shed_factor);
}

/* A throttled event is silent until the kernel unthrottles it: the samples due in between are lost, if the CPU was not
 * idle. How many of them the filters would have excluded is unknown. */
static int take_throttle_record(void *context, unsigned cpu, const struct perf_event_header *record)
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
        s->throttled += samples_withheld(s, notice->time_ns - *since_ns);
        *since_ns = 0;
    }
    return 0;
}

static int cpu_drain(void *self, struct batch *batch)
{
    struct cpu_source *s = self;
    int r, followed;

    r = record_ring_drain(&s->ring, batch);
    if (r < 0)
        return r;
    if (!s->events)
        return 0;
    (void)perf_events_read(s->events, take_throttle_record, s);
    followed = perf_events_follow(s->events, clock_monotonic_ns());
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
        sum.labels_lost += s->stats[i].labels_lost;
        sum.interrupted += s->stats[i].interrupted;
    }
    return sum;
}

/* Counted events without a run of the program: they hit while another program ran, or the kernel withheld them.
 * Includes tasks that the filters would have excluded. A CPU that went offline and came back starts from zero and
 * hides some. */
static uint64_t count_missed(struct cpu_source *s)
{
    uint64_t uncounted = 0;

    if (!s->is_event || !s->events)
        return 0;
    perf_events_values(s->events, s->values,
                       (size_t)s->cpu_count); /* read before the stats: an event in progress must not count as lost */
    (void)read_stats(s);
    for (int i = 0; i < s->cpu_count; i++) {
        uint64_t due = s->values[i] / s->period_ns;

        uncounted += due > s->stats[i].seen ? due - s->stats[i].seen : 0;
    }
    return uncounted;
}

static uint64_t count_shed(const struct cpu_source *s, const struct cpu_stats *sum)
{
    return s->shed + (sum->runs - s->shed_mark) * (s->shed_factor - 1);
}

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "CPU samples at the full rate"},
    {SOURCE_DETAIL_HALF_RATE, "CPU samples at half the rate"},
    {SOURCE_DETAIL_QUARTER_RATE, "CPU samples at a quarter of the rate, without some stacks of new programs"},
    {0},
};

static int cpu_shed(void *self, enum source_detail detail)
{
    struct cpu_source *s = self;
    unsigned factor = source_detail_samples_every(detail);
    struct cpu_stats sum = read_stats(s);
    int r;

    s->skeleton->bss->no_copies = detail >= SOURCE_DETAIL_QUARTER_RATE;
    if (factor == s->shed_factor || s->is_event)
        return 0;
    r = perf_events_set_period(s->events, s->period_ns * factor);
    if (r < 0)
        return r;
    s->skeleton->bss->sample_value = s->period_ns * factor;
    s->shed = count_shed(s, &sum);
    s->shed_mark = sum.runs;
    s->shed_factor = factor;
    return 0;
}

static void cpu_set_rules(void *self, const struct sampling_rules *rules)
{
    struct cpu_source *s = self;

    sampling_rules_shares(rules, s->sample_hz, s->clock_hz, (uint64_t *)s->skeleton->bss->sampling_rule_shares);
}

static uint64_t cpu_run_time_ns(void *self)
{
    return read_stats(self).run_time_ns;
}

static void cpu_losses(void *self, struct losses *losses)
{
    struct cpu_source *s = self;
    uint64_t uncounted = count_missed(s), missed = missed_runs(s->skeleton->obj);
    struct cpu_stats sum = read_stats(s);

    losses->count[LOSS_RING_FULL] += sum.ring_full;
    losses->count[LOSS_MAP_FULL] += sum.no_room;
    losses->count[LOSS_UNLINKED] += sum.links_lost;
    losses->count[LOSS_INTERPRETED] += sum.interpreted_lost;
    losses->count[LOSS_UNLABELLED] += sum.labels_lost;
    losses->count[LOSS_MISSED] +=
        (missed > uncounted ? missed : uncounted) + sum.interrupted; /* some events are in both */
    losses->count[LOSS_THROTTLED] +=
        s->is_software ? 0
                       : s->throttled; /* software events are counted on while throttled, so count_missed() sees them */
    losses->count[LOSS_SHED] += count_shed(s, &sum);
    record_ring_losses(&s->ring, losses);
}

static size_t cpu_memory_bytes(void *self)
{
    struct cpu_source *s = self;

    return s->fixed_bytes + (s->events ? perf_events_bytes(s->events) : 0);
}

static void cpu_metrics(void *self, struct metric_set *set)
{
    struct cpu_source *s = self;
    struct cpu_stats sum = read_stats(s);

    source_put_runs(set, "cpu_sample", sum.runs, sum.run_time_ns);
    metric_add(set, "sonde_self_cpu_samples", METRIC_COUNTER, "", "CPU samples written by the BPF programs",
               (double)sum.samples, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_stack_copies_refused", METRIC_COUNTER, "",
               "User stacks not copied for unwinding in user space because the ring was half full",
               (double)sum.copies_refused, METRIC_NO_LABELS);
}

const struct source source_cpu = {
    .name = "cpu",
    .help = "CPU samples with kernel and user stacks",
    .open = cpu_open,
    .start = cpu_start,
    .stop = cpu_stop,
    .poll_fds = cpu_poll_fds,
    .drain = cpu_drain,
    .losses = cpu_losses,
    .metrics = cpu_metrics,
    .memory_bytes = cpu_memory_bytes,
    .run_time_ns = cpu_run_time_ns,
    .levels = levels,
    .shed = cpu_shed,
    .set_rules = cpu_set_rules,
    .free = cpu_free,
};
