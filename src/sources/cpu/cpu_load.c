/* Loads probes/cpu.bpf.c; see cpu_load.h. */
#include "sources/cpu/cpu_load.h"

#include "sources/attach/map_sizes.h"
#include "sources/attach/sample_event.h"
#include "sources/sampling/cpu_filters.h"
#include "sources/sampling/sampling_rule_table.h"
#include "sources/source.h"
#include "sources/tables/unwind_tables_private.h"

#include "cpu.skel.h"
#include "probes/cpu.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <unistd.h>

#define NS_PER_SECOND 1000000000ULL
/* Smaller limits for kernels whose hash maps must be preallocated. */
#define PROCESSES_MAX_PREALLOC 2048
#define CHUNKS_MAX_PREALLOC    3072

static void set_map_wanted(struct bpf_map *map, bool wanted)
{
    if (!wanted)
        (void)bpf_map__set_autocreate(map, false);
}

uint64_t cpu_weight(const struct source_options *options)
{
    return options->event ? options->event->period
                          : NS_PER_SECOND / sampling_rules_clock_hz(options->rules, options->sample_hz);
}

/* Of the sampling programs, loads the one that fits the event. */
static void choose_programs(struct cpu_bpf *k, const struct sample_event *event)
{
    const bool is_counted = !event || sample_event_is_counted(event);
    const enum sample_event_kind kind = event ? event->kind : SAMPLE_EVENT_SOFTWARE;

    k->rodata->counts_seen = event && is_counted;
    k->rodata->event_period = event && event->period ? event->period : 1;
    bpf_program__set_autoload(k->progs.cpu_sample, is_counted);
    bpf_program__set_autoload(k->progs.event_tracepoint, kind == SAMPLE_EVENT_TRACEPOINT);
    bpf_program__set_autoload(k->progs.event_user_probe, kind == SAMPLE_EVENT_USER_PROBE);
    bpf_program__set_autoload(k->progs.event_mmap, kind == SAMPLE_EVENT_MMAP);
    bpf_program__set_autoload(k->progs.event_brk_enter, kind == SAMPLE_EVENT_BRK);
    bpf_program__set_autoload(k->progs.event_brk, kind == SAMPLE_EVENT_BRK);
    set_map_wanted(k->maps.brk_before, kind == SAMPLE_EVENT_BRK);
}

static int configure(struct cpu_bpf *k, const struct source_options *options, int cpu_count, bool prealloc)
{
    struct bpf_map *processes = k->maps.unwind_processes, *chunks = k->maps.unwind_chunks;
    bool pids = options->pid_count > 0;
    int r;

    k->bss->sample_value = cpu_weight(options);
    choose_programs(k, options->event);
    if (options->rules) {
        k->rodata->sampling_rule_kinds = sampling_rule_table_kinds(options->rules);
        sampling_rules_shares(options->rules, options->sample_hz, (uint64_t *)k->rodata->sampling_rule_shares);
    }
    k->rodata->sampling_seed = options->sampling_seed;
    k->rodata->skip_pid = options->skip_self ? (uint32_t)getpid() : 0;
    k->rodata->filter_pids = pids;
    k->rodata->filter_cgroups = options->cgroup_count > 0;
    k->rodata->filter_commands = options->command_count > 0;
    k->rodata->filter_users = options->user_count > 0;
    k->rodata->cgroup_hierarchy = (int)cpu_filters_cgroups();
    k->rodata->ring_bytes = map_sizes_ring(options->ring_bytes);
    k->rodata->links = options->links;
    k->rodata->no_runtimes = options->no_runtimes;
    set_map_wanted(k->maps.thread_links, options->links);
    set_map_wanted(k->maps.followed, pids);
    set_map_wanted(k->maps.cgroups, options->cgroup_count > 0);
    set_map_wanted(k->maps.commands, options->command_count > 0);
    set_map_wanted(k->maps.users, options->user_count > 0);
    set_map_wanted(k->maps.sampling_rule_keys, options->rules);
    set_map_wanted(k->maps.sampling_rule_counts, options->rules);
    bpf_program__set_autoload(k->progs.follow_fork, pids);
    bpf_program__set_autoload(k->progs.follow_free, pids);

    r = bpf_map__set_max_entries(k->maps.records, (uint32_t)map_sizes_ring(options->ring_bytes));
    if (r == 0)
        r = bpf_map__set_max_entries(k->maps.unwind_scratch, (uint32_t)cpu_count);
    if (r == 0)
        r = unwind_tables_size_interpreters(k->obj, (uint32_t)cpu_count);
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

int cpu_load(const struct source_options *options, int cpu_count, struct cpu_bpf **ret)
{
    int r = -EINVAL;

    libbpf_set_print(NULL);
    for (int prealloc = 0; prealloc <= 1; prealloc++) {
        struct cpu_bpf *k = cpu_bpf__open();

        if (!k)
            return -errno;
        r = configure(k, options, cpu_count, prealloc);
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
