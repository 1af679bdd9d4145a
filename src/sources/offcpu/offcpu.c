/* Off-CPU time: attaches probes/offcpu.bpf.c to the scheduler's tracepoints and drains its records into the batch.
 * Reports as losses what the program counts (struct
 * off_cpu_stats). */
#include "sources/offcpu/offcpu.h"

#include "sources/attach/iterator.h"
#include "sources/attach/map_access.h"
#include "sources/attach/map_sizes.h"
#include "sources/attach/missed_runs.h"
#include "sources/attach/preempt_count.h"
#include "sources/events/record_ring.h"
#include "sources/offcpu/sleeping_tasks.h"
#include "sources/sampling/sampling_rule_table.h"
#include "sources/sampling/task_filters.h"
#include "sources/tables/unwind_tables_private.h"

#include "probes/common/task_filter.h"

#include "offcpu.skel.h"
#include "probes/offcpu.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct off_cpu_source {
    struct offcpu_bpf *bpf;
    struct sleeping_tasks *sleeping_tasks; /* NULL: not supported by this kernel */
    struct record_ring ring;
    const struct shared_tables *tables;
    uint32_t sample_hz;      /* of tasks without a sampling rule */
    uint64_t sample_wait_ns; /* of the options */
    int cpu_count;
};

static void off_cpu_free(void *self)
{
    struct off_cpu_source *s = self;
    if (!s)
        return;
    sleeping_tasks_free(s->sleeping_tasks);
    record_ring_close(&s->ring);
    offcpu_bpf__destroy(s->bpf);
    free(s);
}

static void off_cpu_freep(struct off_cpu_source **s)
{
    off_cpu_free(*s);
}

/* Of the shares, only whether one is 0 matters here. */
static void set_rates(struct offcpu_bpf *k, const struct sampling_rules *rules, uint32_t sample_hz, uint64_t wait_ns)
{
    sampling_rules_shares(rules, sample_hz, sampling_rules_clock_hz(rules, sample_hz),
                          (uint64_t *)k->bss->sampling_rule_shares);
    sampling_rules_sample_ns(rules, sample_hz, wait_ns, OFF_CPU_SO_FAR_NS, (uint64_t *)k->bss->sampling_rule_sample_ns);
}

/* Excluded tasks are skipped in the BPF program. A wait long enough for an OFF_CPU_SO_FAR record is never sampled at
 * random: its later records state how much of it was recorded before. */
static void set_up_sampling_rules(struct offcpu_bpf *k, const struct source_services *services,
                                  const struct off_cpu_options *options)
{
    if (!services->rules)
        return;
    k->rodata->leaves_out = sampling_rules_leave_out(services->rules, services->sample_hz);
    k->rodata->sampling_rule_kinds = sampling_rules_kinds(services->rules);
    set_rates(k, services->rules, services->sample_hz, options->sample_wait_ns);
}

static int configure(struct offcpu_bpf *k, const struct source_services *services,
                     const struct off_cpu_options *options, int cpu_count)
{
    k->rodata->filter = task_filters_settings(services->filter);
    k->rodata->cgroup_hierarchy = (int)task_filters_cgroups();
    k->rodata->ring_bytes = map_sizes_ring(services->ring_bytes);
    k->rodata->min_ns = options->min_wait_ns;
    k->rodata->sample_ns = options->sample_wait_ns;
    k->rodata->sampling_seed = services->sampling_seed;
    k->rodata->wakers = options->wakers;
    k->rodata->links = shared_tables_links_fd(services->tables) >= 0;
    k->rodata->no_runtimes = services->no_runtimes;
#if defined(__x86_64__)
    k->rodata->preempt_count_distance = options->wakers ? preempt_count_find().distance : 0;
#endif
    k->rodata->spare_scratch = (uint32_t)cpu_count;
    set_up_sampling_rules(k, services, options);
    bpf_program__set_autoload(k->progs.off_cpu_waking, options->wakers);
    return bpf_map__set_max_entries(k->maps.records, (uint32_t)map_sizes_ring(services->ring_bytes))
               ?: bpf_map__set_max_entries(k->maps.unwind_scratch, (uint32_t)cpu_count + 1)
               ?: unwind_tables_size_interpreters(k->obj, (uint32_t)cpu_count)
               ?: shared_tables_use(services->tables, k->obj);
}

static int load_programs(const struct source_services *services, const struct off_cpu_options *options, int cpu_count,
                         struct offcpu_bpf **ret)
{
    libbpf_set_print(NULL);
    struct offcpu_bpf *k = offcpu_bpf__open();
    if (!k)
        return -errno;
    int r = configure(k, services, options, cpu_count);
    if (r == 0)
        r = offcpu_bpf__load(k);
    if (r == 0)
        *ret = k;
    else
        offcpu_bpf__destroy(k);
    return r;
}

/* Attaches all programs except the task iterators, which run on demand. */
static int attach_programs(struct offcpu_bpf *k)
{
    struct bpf_program *program;
    bpf_program__set_autoattach(k->progs.off_cpu_begin, false);
    bpf_program__set_autoattach(k->progs.off_cpu_end, false);
    bpf_program__set_autoattach(k->progs.off_cpu_so_far, false);
    bpf_object__for_each_program(program, k->obj)
    {
        if (bpf_program__fd(program) < 0)
            bpf_program__set_autoattach(program, false);
    }
    return offcpu_bpf__attach(k);
}

/* Runs the iterator once over all tasks. */
static int walk_tasks(const struct bpf_program *program)
{
    char nothing[64];
    struct bpf_link *link = bpf_program__attach_iter(program, NULL);
    if (!link)
        return -errno;
    int fd = bpf_iter_create(bpf_link__fd(link)), r = fd < 0 ? -errno : 0;
    ssize_t size;
    if (fd >= 0) {
        do
            size = iterator_read(fd, nothing, sizeof(nothing));
        while (size > 0);
        r = (int)size;
        close(fd);
    }
    bpf_link__destroy(link);
    return r;
}

static bool sees_interrupts(const struct offcpu_bpf *k)
{
#if defined(__x86_64__)
    return k->rodata->preempt_count_distance != 0;
#else
    (void)k;
    return true;
#endif
}

static int off_cpu_open(const struct source_services *services, const void *options_given, struct attach_report *report,
                        void **ret_self)
{
    const struct off_cpu_options *options = options_given;
    __attribute__((cleanup(off_cpu_freep))) struct off_cpu_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "off-CPU time");
    static const char method[] = "tracepoints of the scheduler";
    if (!s)
        return -ENOMEM;
    s->tables = services->tables;
    s->sample_hz = services->sample_hz;
    s->sample_wait_ns = options->sample_wait_ns;
    s->cpu_count = libbpf_num_possible_cpus();
    if (s->cpu_count <= 0)
        return -ENODEV;
    int r = load_programs(services, options, s->cpu_count, &s->bpf);
    if (r == 0)
        r = record_ring_open(&s->ring, bpf_map__fd(s->bpf->maps.records));
    if (r == 0)
        r = attach_programs(s->bpf);
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "no off-CPU time is recorded");
        return r;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    if (options->wakers && !sees_interrupts(s->bpf))
        snprintf(entry->limitation, sizeof(entry->limitation),
                 "whether an interrupt woke a thread is inferred from kernel function names");
    r = sleeping_tasks_new(bpf_map__fd(s->bpf->maps.records), map_sizes_ring(services->ring_bytes),
                           bpf_map__fd(s->bpf->maps.threads), report, &s->sleeping_tasks);
    if (r < 0)
        return r;
    *ret_self = take_ptr(s);
    return 0;
}

static void off_cpu_set_rules(void *self, const struct sampling_rules *rules)
{
    struct off_cpu_source *s = self;
    set_rates(s->bpf, rules, s->sample_hz, s->sample_wait_ns);
}

static int off_cpu_start(void *self)
{
    struct off_cpu_source *s = self;
    s->bpf->bss->enabled = 1;
    int r = walk_tasks(s->bpf->progs.off_cpu_begin);
    if (r == 0)
        (void)sleeping_tasks_start(s->sleeping_tasks); /* on failure those threads keep their kernel stacks only */
    return r;
}

static int flush_waits(struct off_cpu_source *s, int sleeping_tasks_patience_ms)
{
    s->bpf->bss->enabled = 0;
    sleeping_tasks_end(s->sleeping_tasks, sleeping_tasks_patience_ms);
    return walk_tasks(s->bpf->progs.off_cpu_end);
}

static int off_cpu_stop(void *self)
{
    return flush_waits(self, SLEEPING_TASKS_LAST_MS);
}

static bool off_cpu_is_enabled(void *self)
{
    return ((const struct off_cpu_source *)self)->bpf->bss->enabled;
}

/* Writes, for every thread that has waited for a second or longer, a record of its wait so far (OFF_CPU_SO_FAR). Walks
 * all tasks. */
static int off_cpu_flush(void *self)
{
    struct off_cpu_source *s = self;
    return s->bpf->bss->enabled ? walk_tasks(s->bpf->progs.off_cpu_so_far) : 0;
}

/* Drops the state of all threads: it is stale when monitoring resumes. */
static void forget_threads(struct off_cpu_source *s)
{
    map_clear(bpf_map__fd(s->bpf->maps.threads));
}

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "off-CPU time"},
    {SOURCE_DETAIL_NO_OFF_CPU, "no off-CPU time"},
    {0},
};

/* The cost is per context switch, so shedding disables the source completely. */
static int off_cpu_shed(void *self, enum source_detail detail)
{
    struct off_cpu_source *s = self;
    const bool is_shed = detail >= SOURCE_DETAIL_NO_OFF_CPU, was_shed = s->bpf->bss->is_shed;
    int r = 0;
    s->bpf->bss->is_shed = is_shed;
    if (is_shed && !was_shed) {
        r = flush_waits(s, 0);
        forget_threads(s);
    } else if (!is_shed && was_shed) {
        r = off_cpu_start(s);
    }
    return r;
}

static size_t off_cpu_poll_fds(void *self, int *ret_fds, size_t max)
{
    struct off_cpu_source *s = self;
    if (max == 0)
        return 0;
    ret_fds[0] = record_ring_poll_fd(&s->ring);
    return 1;
}

static int off_cpu_drain(void *self, struct batch *batch)
{
    struct off_cpu_source *s = self;
    return record_ring_drain(&s->ring, batch);
}

static struct off_cpu_stats read_stats(struct off_cpu_source *s)
{
    struct off_cpu_stats sum = {0};
    map_sum_counters(bpf_map__fd(s->bpf->maps.stats), &sum, sizeof(sum));
    return sum;
}

struct off_cpu_totals off_cpu_source_stats(void *off_cpu_source)
{
    const struct off_cpu_stats sum = read_stats(off_cpu_source);
    return (struct off_cpu_totals){.recorded = sum.waits,
                                   .recorded_ns = sum.waits_ns,
                                   .short_count = sum.short_count,
                                   .short_ns = sum.short_ns,
                                   .left_out = sum.left_out,
                                   .left_out_ns = sum.left_out_ns,
                                   .lost = sum.lost,
                                   .lost_ns = sum.lost_ns,
                                   .unknown = sum.threads_full};
}

static void off_cpu_losses(void *self, struct losses *losses)
{
    struct off_cpu_source *s = self;
    const struct off_cpu_stats sum = read_stats(s);
    losses->count[LOSS_RING_FULL] += sum.lost + sum.stacks_lost + sleeping_tasks_read_stats(s->sleeping_tasks).lost;
    losses->count[LOSS_MAP_FULL] += sum.threads_full;
    losses->count[LOSS_MISSED] += missed_runs(s->bpf->obj);
    losses->count[LOSS_INTERPRETED] += sum.interpreted_lost;
    losses->count[LOSS_UNLINKED] += sum.links_lost;
    losses->count[LOSS_UNLABELLED] += sum.labels_lost;
    losses->count[LOSS_SHED] += sum.shed;
    record_ring_losses(&s->ring, losses);
}

static void off_cpu_metrics(void *self, struct metric_set *set)
{
    const struct off_cpu_stats sum = read_stats(self);
    const struct sleeping_tasks_stats sleeping_tasks =
        sleeping_tasks_read_stats(((const struct off_cpu_source *)self)->sleeping_tasks);
    const struct {
        const char *result;
        uint64_t count;
    } rows[] = {{"recorded", sum.waits},
                {"left_out", sum.left_out},
                {"lost", sum.lost + sum.threads_full},
                {"shed", sum.shed}},
      sleeping_tasks_rows[] = {{"recorded", sleeping_tasks.copied},
                               {"ran", sleeping_tasks.ran},
                               {"unreadable", sleeping_tasks.unreadable},
                               {"lost", sleeping_tasks.lost}};
    for (size_t i = 0; i < array_size(rows); i++)
        metric_add(set, "sonde_self_off_cpu_waits", METRIC_COUNTER, "",
                   "Waits by result: recorded; left out by random sampling; lost; shed by the budget.",
                   (double)rows[i].count, METRIC_LABELS({"result", rows[i].result}));
    for (size_t i = 0; i < array_size(sleeping_tasks_rows); i++)
        metric_add(set, "sonde_self_earlier_stacks", METRIC_COUNTER, "",
                   "User stacks of threads that were waiting at the start: recorded; not read because the thread ran; "
                   "unreadable; lost.",
                   (double)sleeping_tasks_rows[i].count, METRIC_LABELS({"result", sleeping_tasks_rows[i].result}));
}

static size_t off_cpu_memory_bytes(void *self)
{
    struct off_cpu_source *s = self;
    return sleeping_tasks_memory_bytes(s->sleeping_tasks, s->cpu_count) +
           shared_tables_bytes_beside(s->tables, s->bpf->obj);
}

static uint64_t off_cpu_run_time_ns(void *self)
{
    return read_stats(self).run_time_ns;
}

static uint64_t off_cpu_recorded(void *self)
{
    return read_stats(self).waits;
}

const struct source source_off_cpu = {
    .name = "off-cpu",
    .help = "waits of threads, with kernel and user stacks",
    .open = off_cpu_open,
    .start = off_cpu_start,
    .stop = off_cpu_stop,
    .poll_fds = off_cpu_poll_fds,
    .drain = off_cpu_drain,
    .losses = off_cpu_losses,
    .metrics = off_cpu_metrics,
    .memory_bytes = off_cpu_memory_bytes,
    .run_time_ns = off_cpu_run_time_ns,
    .flush = off_cpu_flush,
    .is_enabled = off_cpu_is_enabled,
    .recorded = off_cpu_recorded,
    .levels = levels,
    .shed = off_cpu_shed,
    .set_rules = off_cpu_set_rules,
    .free = off_cpu_free,
};
