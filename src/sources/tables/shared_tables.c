/* Loads probes/tables.bpf.c with the maps that are wanted, and fills what user space knows at the start: filters and
 * sampling rules. See shared_tables.h. */
#include "sources/tables/shared_tables.h"

#include "sources/attach/map_sizes.h"
#include "sources/attach/missed_runs.h"
#include "sources/sampling/sampling_rule_table.h"
#include "sources/sampling/task_filters.h"
#include "sources/tables/flight_recorder.h"
#include "sources/tables/unwind_tables_private.h"

#include "probes/interpreter/interpreter.h"
#include "tables.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

/* With preallocated maps, which take their memory at once. */
#define PROCESSES_MAX_PREALLOC 2048
#define CHUNKS_MAX_PREALLOC    3072

struct shared_tables {
    struct tables_bpf *bpf; /* NULL: refused */
    int error;              /* why */
    int sampler_fd;         /* negative: none */
    struct unwind_tables *unwind;
    struct sampling_rule_table *rules;
    struct flight_recorder *recorder;
};

void shared_tables_free(struct shared_tables *t)
{
    if (!t)
        return;
    unwind_tables_free(t->unwind);
    sampling_rule_table_free(t->rules);
    flight_recorder_free(t->recorder);
    tables_bpf__destroy(t->bpf);
    free(t);
}

static void set_map_wanted(struct bpf_map *map, bool is_wanted)
{
    (void)bpf_map__set_autocreate(map, is_wanted);
}

static void choose_maps(struct tables_bpf *k, const struct shared_tables_options *options)
{
    const struct task_filter *filter = options->filter;
    const bool unwinds = options->unwind_bytes > 0;

    set_map_wanted(k->maps.followed, filter->pid_count > 0);
    set_map_wanted(k->maps.cgroups, filter->cgroup_count > 0);
    set_map_wanted(k->maps.commands, filter->command_count > 0);
    set_map_wanted(k->maps.users, filter->user_count > 0);
    set_map_wanted(k->maps.sampling_rule_keys, options->rules);
    set_map_wanted(k->maps.sampling_rule_counts, options->rules);
    set_map_wanted(k->maps.unwind_processes, unwinds);
    set_map_wanted(k->maps.unwind_chunks, unwinds);
    set_map_wanted(k->maps.unwind_objects, unwinds);
    set_map_wanted(k->maps.emitted_codes, unwinds);
    set_map_wanted(k->maps.thread_contexts, unwinds);
    set_map_wanted(k->maps.go_labels, unwinds);
    set_map_wanted(k->maps.recorder_programs, unwinds && options->recorder_bytes > 0);
    set_map_wanted(k->maps.recorder_tasks, unwinds && options->recorder_bytes > 0);
    set_map_wanted(k->maps.recorder_goroutines, unwinds && options->recorder_bytes > 0);
    set_map_wanted(k->maps.recorder_python_threads, unwinds && options->recorder_bytes > 0);
    set_map_wanted(k->maps.recorder_gil_waits, unwinds && options->recorder_bytes > 0);
    set_map_wanted(k->maps.thread_links, options->links);
    set_map_wanted(k->maps.recorder_records, options->recorder_bytes > 0);
    set_map_wanted(k->maps.recorder_cpus, options->recorder_bytes > 0);
    set_map_wanted(k->maps.recorder_files, options->recorder_bytes > 0);
    bpf_program__set_autoload(k->progs.follow_fork, filter->pid_count > 0);
    bpf_program__set_autoload(k->progs.follow_free, filter->pid_count > 0);
    bpf_program__set_autoload(k->progs.test_allocation, unwinds);
}

static int size_unwind_maps(struct tables_bpf *k, bool prealloc)
{
    struct bpf_map *processes = k->maps.unwind_processes, *chunks = k->maps.unwind_chunks;
    int r = bpf_map__set_max_entries(processes, prealloc ? PROCESSES_MAX_PREALLOC : UNWIND_TABLES_PROCESSES_MAX)
                ?: bpf_map__set_max_entries(chunks, prealloc ? CHUNKS_MAX_PREALLOC : UNWIND_TABLES_CHUNKS_MAX);

    if (r == 0 && prealloc)
        r = bpf_map__set_map_flags(processes, 0) ?: bpf_map__set_map_flags(chunks, 0);
    return r;
}

static struct flight_recorder_size recorder_size(const struct shared_tables_options *options)
{
    const int cpus = libbpf_num_possible_cpus();

    return flight_recorder_size(options->recorder_bytes, cpus > 0 ? (uint32_t)cpus : 1);
}

static int size_recorder_maps(struct tables_bpf *k, const struct shared_tables_options *options)
{
    const struct flight_recorder_size size = recorder_size(options);

    return bpf_map__set_max_entries(k->maps.recorder_records,
                                    size.cpus * (size.scheduler_records + size.object_records))
               ?: bpf_map__set_max_entries(k->maps.recorder_cpus, size.cpus);
}

static int load_maps(const struct shared_tables_options *options, bool prealloc, struct tables_bpf **ret)
{
    struct tables_bpf *k = tables_bpf__open();
    int r;

    if (!k)
        return -errno;
    choose_maps(k, options);
    r = size_unwind_maps(k, prealloc) ?: size_recorder_maps(k, options) ?: tables_bpf__load(k);
    if (r == 0)
        *ret = k;
    else
        tables_bpf__destroy(k);
    return r;
}

/* Children are followed from here on, so that none is missed between this and the start of a source. */
static int follow_children(struct tables_bpf *k)
{
    k->links.follow_fork = bpf_program__attach(k->progs.follow_fork);
    if (!k->links.follow_fork)
        return -errno;
    k->links.follow_free = bpf_program__attach(k->progs.follow_free);
    return k->links.follow_free ? 0 : -errno;
}

static int fill_tables(struct shared_tables *t, const struct shared_tables_options *options)
{
    struct tables_bpf *k = t->bpf;
    int r = options->filter->pid_count > 0 ? follow_children(k) : 0;

    if (r == 0)
        r = task_filters_fill(options->filter, bpf_map__fd(k->maps.followed), bpf_map__fd(k->maps.cgroups),
                              bpf_map__fd(k->maps.commands), bpf_map__fd(k->maps.users));
    if (r == 0 && options->rules)
        r = sampling_rule_table_new(options->rules, bpf_map__fd(k->maps.sampling_rule_keys),
                                    bpf_map__fd(k->maps.sampling_rule_counts), &t->rules);
    if (r == 0 && options->unwind_bytes)
        r = unwind_tables_new(k->obj, options->unwind_bytes, &t->unwind);
    if (r == 0 && bpf_map__fd(k->maps.recorder_records) >= 0) {
        const struct flight_recorder_size size = recorder_size(options);

        (void)flight_recorder_new(bpf_map__fd(k->maps.recorder_records), bpf_map__fd(k->maps.recorder_cpus),
                                  bpf_map__fd(k->maps.recorder_files), &size,
                                  &t->recorder); /* the recorder's source reports that it is missing */
    }
    return r;
}

static int load_best(const struct shared_tables_options *options, struct tables_bpf **ret)
{
    int r = load_maps(options, false, ret);

    if (r < 0 && r != -EPERM && options->unwind_bytes)
        r = load_maps(options, true, ret);
    return r;
}

int shared_tables_new(const struct shared_tables_options *options, struct shared_tables **ret)
{
    _cleanup_(shared_tables_freep) struct shared_tables *t = calloc(1, sizeof(*t));
    struct shared_tables_options without_recorder = *options;

    if (!t)
        return -ENOMEM;
    libbpf_set_print(NULL);
    without_recorder.recorder_bytes = 0;
    t->sampler_fd = -1;
    t->error = load_best(options, &t->bpf);
    if (t->error < 0 && t->error != -EPERM && options->recorder_bytes)
        t->error = load_best(&without_recorder, &t->bpf);
    if (t->error == 0) {
        int r = fill_tables(t, options);

        if (r < 0)
            return r;
    }
    *ret = take_ptr(t);
    return 0;
}

static const struct bpf_map *find_shared(const struct shared_tables *t, const struct bpf_map *map)
{
    const char *name = bpf_map__name(map);

    return bpf_map__is_internal(map) ? NULL : bpf_object__find_map_by_name(t->bpf->obj, name);
}

int shared_tables_use(const struct shared_tables *t, struct bpf_object *of)
{
    struct bpf_map *map;

    if (!t->bpf)
        return t->error;
    bpf_object__for_each_map(map, of)
    {
        const struct bpf_map *shared = find_shared(t, map);

        if (!shared)
            continue;
        int r = bpf_map__fd(shared) >= 0 ? bpf_map__reuse_fd(map, bpf_map__fd(shared))
                                         : bpf_map__set_autocreate(map, false);
        if (r < 0)
            return r;
    }
    return 0;
}

bool shared_tables_own(const struct shared_tables *t, const struct bpf_map *map)
{
    return t->bpf && find_shared(t, map);
}

/* `except`: tables whose maps are left out; NULL: none. */
static size_t bytes_of_maps(const struct bpf_object *of, const struct shared_tables *except)
{
    const int cpus = libbpf_num_possible_cpus();
    size_t bytes = 0;
    const struct bpf_map *map = NULL;

    while (cpus > 0 && (map = bpf_object__next_map(of, map)))
        if (bpf_map__fd(map) >= 0 && !(except && shared_tables_own(except, map)))
            bytes += map_sizes_bytes(map, cpus);
    return bytes;
}

size_t shared_tables_bytes_beside(const struct shared_tables *t, const struct bpf_object *of)
{
    return bytes_of_maps(of, t);
}

struct unwind_tables *shared_tables_unwind(const struct shared_tables *t)
{
    return t->unwind;
}

struct sampling_rule_table *shared_tables_sampling_rules(const struct shared_tables *t)
{
    return t->rules;
}

struct flight_recorder *shared_tables_recorder(const struct shared_tables *t)
{
    return t->recorder;
}

bool shared_tables_has_tasks(const struct shared_tables *t)
{
    return t->bpf && bpf_map__fd(t->bpf->maps.recorder_tasks) >= 0;
}

bool shared_tables_contexts(const struct shared_tables *t, struct context_tables *ret)
{
    if (!t->bpf || bpf_map__fd(t->bpf->maps.thread_contexts) < 0)
        return false;
    *ret = (struct context_tables){bpf_map__fd(t->bpf->maps.thread_contexts), bpf_map__fd(t->bpf->maps.go_labels)};
    return true;
}

void shared_tables_set_sampler(struct shared_tables *t, int program_fd)
{
    t->sampler_fd = program_fd;
}

int shared_tables_sampler_fd(const struct shared_tables *t)
{
    return t->sampler_fd;
}

int shared_tables_followed_fd(const struct shared_tables *t)
{
    return t->bpf ? bpf_map__fd(t->bpf->maps.followed) : -1;
}

int shared_tables_links_fd(const struct shared_tables *t)
{
    return t->bpf ? bpf_map__fd(t->bpf->maps.thread_links) : -1;
}

void shared_tables_follow(struct shared_tables *t, uint64_t now_ns)
{
    if (t->rules)
        sampling_rule_table_follow(t->rules, now_ns);
}

int shared_tables_set_cgroups(struct shared_tables *t, const uint64_t *ids, size_t count)
{
    return t->bpf ? task_filters_set_cgroups(bpf_map__fd(t->bpf->maps.cgroups), ids, count) : t->error;
}

void shared_tables_reemit(const struct shared_tables *t, uint32_t pid, uint64_t code, uint32_t check)
{
    const uint32_t index = emitted_code_index(emitted_code_hash(pid, code, check));
    const uint64_t empty = 0;

    if (t->bpf && bpf_map__fd(t->bpf->maps.emitted_codes) >= 0)
        (void)bpf_map_update_elem(bpf_map__fd(t->bpf->maps.emitted_codes), &index, &empty, BPF_ANY);
}

void shared_tables_losses(const struct shared_tables *t, struct losses *losses)
{
    if (!t->bpf)
        return;
    losses->count[LOSS_MAP_FULL] += t->bpf->bss->followed_full;
    losses->count[LOSS_MAP_FULL] += t->rules ? sampling_rule_table_left_out(t->rules) : 0;
    losses->count[LOSS_MISSED] += missed_runs(t->bpf->obj);
}

void shared_tables_metrics(const struct shared_tables *t, struct metric_set *set)
{
    if (t->unwind)
        metric_add(set, "sonde_self_unwind_tables_bytes", METRIC_GAUGE, "bytes", "Kernel memory held by unwind tables",
                   (double)unwind_tables_bytes(t->unwind), METRIC_NO_LABELS);
}

size_t shared_tables_bytes(const struct shared_tables *t)
{
    return (t->unwind ? unwind_tables_bytes(t->unwind) : 0) + (t->bpf ? bytes_of_maps(t->bpf->obj, NULL) : 0);
}
