/* Off-CPU time: attaches probes/offcpu.bpf.c to the scheduler's tracepoints and drains its records into the batch.
 * Owns the unwind tables if no other source lends them. Reports as losses what the program counts (struct
 * off_cpu_stats). */
#include "sources/offcpu/offcpu.h"

#include "sources/attach/map_sizes.h"
#include "sources/attach/missed_runs.h"
#include "sources/attach/preempt_count.h"
#include "sources/events/record_ring.h"
#include "sources/offcpu/sleeping_tasks.h"
#include "sources/sampling/cpu_filters.h"
#include "sources/sampling/sampling_rule_table.h"
#include "sources/source.h"
#include "sources/tables/unwind_tables_private.h"

#include "base/clock.h"

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
    struct unwind_tables *tables;      /* NULL: borrowed from another source */
    struct sampling_rule_table *rules; /* NULL: borrowed from another source, or there are no rules */
    bool shares_contexts;              /* the context tables are borrowed from another source */
    struct off_cpu_stats *stats;       /* per possible CPU */
    int cpu_count;
};

static void off_cpu_free(void *self)
{
    struct off_cpu_source *s = self;
    if (!s)
        return;
    sleeping_tasks_free(s->sleeping_tasks);
    record_ring_close(&s->ring);
    unwind_tables_free(s->tables);
    sampling_rule_table_free(s->rules);
    offcpu_bpf__destroy(s->bpf);
    free(s->stats);
    free(s);
}

static void off_cpu_freep(struct off_cpu_source **s)
{
    off_cpu_free(*s);
}

/* Excluded tasks are skipped in the BPF program. A wait long enough for an OFF_CPU_SO_FAR record is never sampled at
 * random: its later records state how much of it was recorded before. */
static int set_up_sampling_rules(struct offcpu_bpf *k, const struct source_options *options)
{
    (void)bpf_map__set_autocreate(k->maps.sampling_rule_counts, false);
    if (!options->rules)
        return bpf_map__set_autocreate(k->maps.sampling_rule_keys, false);
    k->rodata->leaves_out = sampling_rules_leave_out(options->rules, options->sample_hz);
    k->rodata->sampling_rule_kinds = sampling_rule_table_kinds(options->rules);
    sampling_rules_shares(options->rules, options->sample_hz, (uint64_t *)k->rodata->sampling_rule_shares);
    sampling_rules_sample_ns(options->rules, options->sample_hz, options->sample_wait_ns, OFF_CPU_SO_FAR_NS,
                             (uint64_t *)k->rodata->sampling_rule_sample_ns);
    return options->has_sampling_rule_keys
               ? bpf_map__reuse_fd(k->maps.sampling_rule_keys, options->sampling_rule_keys_fd)
               : 0;
}

/* Reuses the context tables of other sources where they exist. */
static int set_up_contexts(struct offcpu_bpf *k, const struct source_options *options)
{
    int r = 0;
    k->rodata->links = options->links;
    if (options->has_contexts)
        r = bpf_map__reuse_fd(k->maps.thread_contexts, options->contexts.thread_contexts_fd)
                ?: bpf_map__reuse_fd(k->maps.go_labels, options->contexts.go_labels_fd);
    if (r < 0)
        return r;
    return options->links ? bpf_map__reuse_fd(k->maps.thread_links, options->links_fd)
                          : bpf_map__set_autocreate(k->maps.thread_links, false);
}

static int configure(struct offcpu_bpf *k, const struct source_options *options, int cpu_count)
{
    struct bpf_map *const filters[] = {k->maps.followed, k->maps.cgroups, k->maps.commands, k->maps.users};
    const bool wanted[] = {options->pid_count > 0, options->cgroup_count > 0, options->command_count > 0,
                           options->user_count > 0};
    k->rodata->skip_pid = options->skip_self ? (uint32_t)getpid() : 0;
    k->rodata->filter_pids = wanted[0];
    k->rodata->filter_cgroups = wanted[1];
    k->rodata->filter_commands = wanted[2];
    k->rodata->filter_users = wanted[3];
    k->rodata->cgroup_hierarchy = (int)cpu_filters_cgroups();
    k->rodata->ring_bytes = map_sizes_ring(options->ring_bytes);
    k->rodata->min_ns = options->min_wait_ns;
    k->rodata->sample_ns = options->sample_wait_ns;
    k->rodata->sampling_seed = options->sampling_seed;
    k->rodata->wakers = options->wakers;
    k->rodata->no_runtimes = options->no_runtimes;
#if defined(__x86_64__)
    k->rodata->preempt_count_distance = options->wakers ? preempt_count_distance() : 0;
#endif
    k->rodata->spare_scratch = (uint32_t)cpu_count;
    for (size_t i = 0; i < array_size(filters); i++)
        if (!wanted[i])
            (void)bpf_map__set_autocreate(filters[i], false);
    bpf_program__set_autoload(k->progs.follow_fork, wanted[0]);
    bpf_program__set_autoload(k->progs.follow_free, wanted[0]);
    bpf_program__set_autoload(k->progs.off_cpu_waking, options->wakers);
    int r = set_up_sampling_rules(k, options) ?: set_up_contexts(k, options);
    if (r == 0)
        r = bpf_map__set_max_entries(k->maps.records, (uint32_t)map_sizes_ring(options->ring_bytes));
    if (r == 0)
        r = bpf_map__set_max_entries(k->maps.unwind_scratch, (uint32_t)cpu_count + 1);
    if (r == 0)
        r = unwind_tables_size_interpreters(k->obj, (uint32_t)cpu_count);
    return r ?: unwind_tables_set_up(k->obj, options->tables);
}

static int load_programs(const struct source_options *options, int cpu_count, struct offcpu_bpf **ret)
{
    libbpf_set_print(NULL);
    struct offcpu_bpf *k = offcpu_bpf__open();
    if (!k)
        return -errno;
    int r = configure(k, options, cpu_count);
    if (r == 0)
        r = offcpu_bpf__load(k);
    if (r == 0)
        *ret = k;
    else
        offcpu_bpf__destroy(k);
    return r;
}

/* Attaches all programs except the task iterators, which run on demand. */
static int attach_programs(struct offcpu_bpf *k, const struct source_options *options)
{
    struct bpf_program *program;
    int r = cpu_filters_fill(options, bpf_map__fd(k->maps.followed), bpf_map__fd(k->maps.cgroups),
                             bpf_map__fd(k->maps.commands), bpf_map__fd(k->maps.users));
    bpf_program__set_autoattach(k->progs.off_cpu_begin, false);
    bpf_program__set_autoattach(k->progs.off_cpu_end, false);
    bpf_program__set_autoattach(k->progs.off_cpu_so_far, false);
    bpf_object__for_each_program(program, k->obj)
    {
        if (bpf_program__fd(program) < 0)
            bpf_program__set_autoattach(program, false);
    }
    return r ?: offcpu_bpf__attach(k);
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
            size = read(fd, nothing, sizeof(nothing));
        while (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR)));
        r = size < 0 ? -errno : 0;
        close(fd);
    }
    bpf_link__destroy(link);
    return r;
}

static int create_tables(struct off_cpu_source *s, const struct source_options *options)
{
    int r = record_ring_open(&s->ring, bpf_map__fd(s->bpf->maps.records));
    if (r < 0)
        return r;
    if (options->rules && !options->has_sampling_rule_keys) {
        r = sampling_rule_table_new(options->rules, bpf_map__fd(s->bpf->maps.sampling_rule_keys), -1, &s->rules);
        if (r < 0)
            return r;
    }
    return options->tables ? 0 : unwind_tables_new(s->bpf->obj, options->table_bytes, &s->tables);
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

static int off_cpu_open(const struct source_options *options, struct attach_report *report, void **ret_self)
{
    __attribute__((cleanup(off_cpu_freep))) struct off_cpu_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "off-CPU time");
    static const char method[] = "tracepoints of the scheduler";
    if (!s)
        return -ENOMEM;
    s->shares_contexts = options->has_contexts;
    s->cpu_count = libbpf_num_possible_cpus();
    if (s->cpu_count <= 0)
        return -ENODEV;
    s->stats = calloc((size_t)s->cpu_count, sizeof(*s->stats));
    if (!s->stats)
        return -ENOMEM;
    int r = load_programs(options, s->cpu_count, &s->bpf);
    if (r == 0)
        r = create_tables(s, options);
    if (r == 0)
        r = attach_programs(s->bpf, options);
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
    r = sleeping_tasks_new(bpf_map__fd(s->bpf->maps.records), map_sizes_ring(options->ring_bytes),
                           bpf_map__fd(s->bpf->maps.threads), report, &s->sleeping_tasks);
    if (r < 0)
        return r;
    *ret_self = take_ptr(s);
    return 0;
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

bool off_cpu_source_is_enabled(void *off_cpu_source)
{
    return ((const struct off_cpu_source *)off_cpu_source)->bpf->bss->enabled;
}

int off_cpu_source_flush_waits(void *off_cpu_source)
{
    struct off_cpu_source *s = off_cpu_source;
    return s->bpf->bss->enabled ? walk_tasks(s->bpf->progs.off_cpu_so_far) : 0;
}

/* Drops the state of all threads: it is stale when monitoring resumes. */
static void forget_threads(struct off_cpu_source *s)
{
    const int fd = bpf_map__fd(s->bpf->maps.threads);
    uint32_t tid;
    while (bpf_map_get_next_key(fd, NULL, &tid) == 0 && bpf_map_delete_elem(fd, &tid) == 0)
        ;
}

/* The cost is per context switch, so shedding disables the source completely. */
static int off_cpu_shed(void *self, enum source_detail detail)
{
    struct off_cpu_source *s = self;
    const bool is_shed = detail > SOURCE_DETAIL_FULL, was_shed = s->bpf->bss->is_shed;
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
    const int r = record_ring_drain(&s->ring, batch);
    if (s->rules)
        sampling_rule_table_follow(s->rules, clock_monotonic_ns());
    return r;
}

static struct off_cpu_stats read_stats(struct off_cpu_source *s)
{
    struct off_cpu_stats sum = {0};
    uint32_t zero = 0;
    if (bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.stats), &zero, s->stats) < 0)
        return sum;
    for (int i = 0; i < s->cpu_count; i++) {
        const struct off_cpu_stats *one = &s->stats[i];
        sum.runs += one->runs;
        sum.run_time_ns += one->run_time_ns;
        sum.waits += one->waits;
        sum.waits_ns += one->waits_ns;
        sum.short_count += one->short_count;
        sum.short_ns += one->short_ns;
        sum.left_out += one->left_out;
        sum.left_out_ns += one->left_out_ns;
        sum.lost += one->lost;
        sum.lost_ns += one->lost_ns;
        sum.stacks_lost += one->stacks_lost;
        sum.copies_refused += one->copies_refused;
        sum.interpreted_lost += one->interpreted_lost;
        sum.links_lost += one->links_lost;
        sum.labels_lost += one->labels_lost;
        sum.threads_full += one->threads_full;
        sum.shed += one->shed;
    }
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
    losses->count[LOSS_MAP_FULL] +=
        sum.threads_full + s->bpf->bss->followed_full + (s->rules ? sampling_rule_table_left_out(s->rules) : 0);
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
    const struct offcpu_bpf *k = s->bpf;
    size_t sum =
        (s->tables ? unwind_tables_bytes(s->tables) : 0) + sleeping_tasks_memory_bytes(s->sleeping_tasks, s->cpu_count);
    struct bpf_map *map;
    bpf_object__for_each_map(map, k->obj)
    {
        bool is_of_tables =
            map == k->maps.unwind_processes || map == k->maps.unwind_chunks || map == k->maps.unwind_objects;
        if ((map == k->maps.sampling_rule_keys && !s->rules) ||
            map == k->maps.thread_links) /* owned by another source */
            continue;
        if (s->shares_contexts && (map == k->maps.thread_contexts || map == k->maps.go_labels))
            continue;
        if (bpf_map__fd(map) >= 0 && (s->tables || !is_of_tables))
            sum += map_sizes_bytes(map, s->cpu_count);
    }
    return sum;
}

static uint64_t off_cpu_run_time_ns(void *self)
{
    return read_stats(self).run_time_ns;
}

struct context_tables off_cpu_source_contexts(const void *off_cpu_source)
{
    const struct offcpu_bpf *k = ((const struct off_cpu_source *)off_cpu_source)->bpf;
    return (struct context_tables){bpf_map__fd(k->maps.thread_contexts), bpf_map__fd(k->maps.go_labels)};
}

int off_cpu_source_followed_fd(void *off_cpu_source)
{
    return bpf_map__fd(((const struct off_cpu_source *)off_cpu_source)->bpf->maps.followed);
}

struct sampling_rule_table *off_cpu_source_sampling_rules(void *off_cpu_source)
{
    return ((struct off_cpu_source *)off_cpu_source)->rules;
}

struct unwind_tables *off_cpu_source_unwind_tables(void *off_cpu_source)
{
    return ((struct off_cpu_source *)off_cpu_source)->tables;
}

static int off_cpu_set_cgroups(void *self, const uint64_t *ids, size_t count)
{
    return cpu_filters_set_cgroups(bpf_map__fd(((const struct off_cpu_source *)self)->bpf->maps.cgroups), ids, count);
}

void off_cpu_source_reemit(void *off_cpu_source, uint32_t pid, uint64_t code, uint32_t check)
{
    unwind_tables_reemit(((const struct off_cpu_source *)off_cpu_source)->bpf->maps.emitted_codes, pid, code, check);
}

const struct source source_off_cpu = {
    .name = "off-cpu",
    .help = "waits of threads, with kernel and user stacks",
    .open = off_cpu_open,
    .start = off_cpu_start,
    .set_cgroups = off_cpu_set_cgroups,
    .stop = off_cpu_stop,
    .poll_fds = off_cpu_poll_fds,
    .drain = off_cpu_drain,
    .losses = off_cpu_losses,
    .metrics = off_cpu_metrics,
    .memory_bytes = off_cpu_memory_bytes,
    .run_time_ns = off_cpu_run_time_ns,
    .shed = off_cpu_shed,
    .free = off_cpu_free,
};
