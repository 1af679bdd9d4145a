/* Loads probes/cpu.bpf.c; see cpu_load.h. */
#include "sources/cpu/cpu_load.h"

#include "sources/attach/map_sizes.h"
#include "sources/attach/preempt_count.h"
#include "sources/attach/sample_event.h"
#include "sources/attach/uprobe_link.h"
#include "sources/sampling/sampling_rule_table.h"
#include "sources/sampling/task_filters.h"
#include "sources/source.h"
#include "sources/tables/unwind_tables_private.h"

#include "cpu.skel.h"
#include "probes/cpu.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

#define NS_PER_SECOND 1000000000ULL

static void set_map_wanted(struct bpf_map *map, bool wanted)
{
    if (!wanted)
        (void)bpf_map__set_autocreate(map, false);
}

uint64_t cpu_weight(const struct source_services *services)
{
    return services->event ? services->event->period
                           : NS_PER_SECOND / sampling_rules_clock_hz(services->rules, services->sample_hz);
}

/* Of the sampling programs, loads those that fit the event. */
static void choose_programs(struct cpu_bpf *k, const struct sample_event *event)
{
    const bool is_counted = !event || sample_event_is_counted(event);
    const enum sample_event_kind kind = event ? event->kind : SAMPLE_EVENT_SOFTWARE;

    k->rodata->counts_seen = event && is_counted;
    k->rodata->page_faults = !event;
    k->rodata->event_period = event && event->period ? event->period : 1;
    bpf_program__set_autoload(k->progs.cpu_sample, is_counted);
    bpf_program__set_autoload(k->progs.event_tracepoint, kind == SAMPLE_EVENT_TRACEPOINT);
    k->rodata->has_preempt_disable = (kind == SAMPLE_EVENT_USER_PROBE || kind == SAMPLE_EVENT_GPU) &&
                                     preempt_count_find().has_preempt_disable_for_functions;
    bpf_program__set_autoload(k->progs.event_user_probe, kind == SAMPLE_EVENT_USER_PROBE);
    bpf_program__set_autoload(k->progs.event_gpu_launch, kind == SAMPLE_EVENT_GPU);
    bpf_program__set_autoload(k->progs.event_gpu_record, kind == SAMPLE_EVENT_GPU);
    bpf_program__set_autoload(k->progs.event_mmap, kind == SAMPLE_EVENT_MMAP);
    bpf_program__set_autoload(k->progs.event_brk_enter, kind == SAMPLE_EVENT_BRK);
    bpf_program__set_autoload(k->progs.event_brk, kind == SAMPLE_EVENT_BRK);
    set_map_wanted(k->maps.brk_before, kind == SAMPLE_EVENT_BRK);
}

static int configure(struct cpu_bpf *k, const struct source_services *services, int cpu_count)
{
    k->bss->sample_value = cpu_weight(services);
    choose_programs(k, services->event);
    if (services->rules) {
        k->rodata->sampling_rule_kinds = sampling_rules_kinds(services->rules);
        sampling_rules_shares(services->rules, services->sample_hz,
                              sampling_rules_clock_hz(services->rules, services->sample_hz),
                              (uint64_t *)k->bss->sampling_rule_shares);
    }
    k->rodata->sampling_seed = services->sampling_seed;
    k->rodata->filter = task_filters_settings(services->filter);
    k->rodata->cgroup_hierarchy = (int)task_filters_cgroups();
    k->rodata->ring_bytes = map_sizes_ring(services->ring_bytes);
    k->rodata->links = shared_tables_links_fd(services->tables) >= 0;
    k->rodata->no_runtimes = services->no_runtimes;
    return bpf_map__set_max_entries(k->maps.records, (uint32_t)map_sizes_ring(services->ring_bytes))
               ?: bpf_map__set_max_entries(k->maps.unwind_scratch, (uint32_t)cpu_count)
               ?: unwind_tables_size_interpreters(k->obj, (uint32_t)cpu_count)
               ?: shared_tables_use(services->tables, k->obj);
}

int cpu_load(const struct source_services *services, int cpu_count, struct cpu_bpf **ret)
{
    struct cpu_bpf *k;
    int r;

    libbpf_set_print(NULL);
    k = cpu_bpf__open();
    if (!k)
        return -errno;
    uprobe_links_prepare(k->obj);
    r = configure(k, services, cpu_count) ?: cpu_bpf__load(k);
    if (r == 0)
        *ret = k;
    else
        cpu_bpf__destroy(k);
    return r;
}
