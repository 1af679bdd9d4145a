/* Loads probes/cuda.bpf.c, drives the attachments of its programs, and lends its tables to the signal. The whole node
 * is watched: the task filter does not apply. */
#include "sources/cuda/cuda.h"

#include "sources/attach/map_access.h"
#include "sources/attach/missed_runs.h"
#include "sources/attach/preempt_count.h"
#include "sources/attach/uprobe_link.h"
#include "sources/run_timers.h"

#include "base/cleanup.h"

#include <linux/types.h>

#include "cuda.skel.h"
#include "probes/cuda.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct cuda_source {
    struct cuda_bpf *bpf;
    const struct shared_tables *tables;
    struct uprobe_attachments *attachments;
    uint64_t helper_starts, resets;
};

static void cuda_free(void *self)
{
    struct cuda_source *s = self;
    if (!s)
        return;
    uprobe_attachments_free(s->attachments); /* first: it uses the programs */
    cuda_bpf__destroy(s->bpf);
    free(s);
}

static void cuda_freep(struct cuda_source **s)
{
    cuda_free(*s);
}

static int attach_exit(struct cuda_source *s)
{
    s->bpf->links.cuda_exit = bpf_program__attach(s->bpf->progs.cuda_exit);
    return s->bpf->links.cuda_exit ? 0 : -errno;
}

static int new_attachments(struct cuda_source *s)
{
    const struct cuda_bpf *bpf = s->bpf;
    const struct uprobe_programs kinds[CUDA_CALLS] = {
        [CUDA_CALL_LAUNCH] = {bpf->progs.cuda_launch, NULL},
        [CUDA_CALL_GRAPH_LAUNCH] = {bpf->progs.cuda_graph_launch, NULL},
        [CUDA_CALL_COPY] = {bpf->progs.cuda_copy, NULL},
        [CUDA_CALL_ALLOCATION] = {bpf->progs.cuda_allocation, NULL},
        [CUDA_CALL_SYNCHRONIZE] = {bpf->progs.cuda_synchronize, bpf->progs.cuda_synchronize_return},
    };
    return uprobe_attachments_new("sonde-cuda", kinds, CUDA_CALLS, &s->attachments);
}

static int load_programs(struct cuda_source *s)
{
    libbpf_set_print(NULL);
    s->bpf = cuda_bpf__open();
    if (!s->bpf)
        return -errno;
    s->bpf->rodata->has_preempt_disable = preempt_count_find().has_preempt_disable;
    uprobe_links_prepare(s->bpf->obj);
    return cuda_bpf__load(s->bpf) ?: attach_exit(s) ?: new_attachments(s);
}

static int cuda_open(const struct source_services *services, const void *options, struct attach_report *report,
                     void **ret_self)
{
    _cleanup_(cuda_freep) struct cuda_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "CUDA calls");
    static const char method[] = "uprobes on libcuda.so";
    (void)options;
    if (!s)
        return -ENOMEM;
    s->tables = services->tables;
    int r = load_programs(s);
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "no calls of libcuda are counted");
        return r;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    snprintf(entry->limitation, sizeof(entry->limitation),
             "kinds of calls whose functions begin with instructions that the kernel single-steps are not counted");
    *ret_self = take_ptr(s);
    return 0;
}

static int cuda_start(void *self)
{
    (void)self; /* nothing to attach to yet */
    return 0;
}

/* Produces no records. Called once per pipeline cycle, it drives the attachments. */
static int cuda_drain(void *self, struct batch *batch)
{
    struct cuda_source *s = self;
    struct uprobe_attachments_stats stats;
    (void)batch;
    uprobe_attachments_turn(s->attachments);
    uprobe_attachments_stats(s->attachments, &stats);
    if (stats.starts != s->helper_starts && s->helper_starts)
        cuda_source_reset(s); /* the new helper has attached to nothing so far */
    s->helper_starts = stats.starts;
    return 0;
}

struct uprobe_attachments *cuda_source_attachments(void *cuda_source)
{
    return ((struct cuda_source *)cuda_source)->attachments;
}

/* ---- tables ---- */

static struct map_walk begin_walk(const struct bpf_map *map)
{
    struct map_walk walk;
    map_walk_begin(&walk, bpf_map__fd(map));
    return walk;
}

struct map_walk cuda_source_processes(void *cuda_source)
{
    return begin_walk(((const struct cuda_source *)cuda_source)->bpf->maps.processes);
}

struct map_walk cuda_source_waits(void *cuda_source)
{
    return begin_walk(((const struct cuda_source *)cuda_source)->bpf->maps.waits);
}

void cuda_source_forget(void *cuda_source, uint32_t pid, uint64_t start_ns)
{
    _cleanup_(map_walk_end) struct map_walk walk = cuda_source_processes(cuda_source);
    struct cuda_process_name name;
    while (map_walk_next(&walk, &name, NULL))
        if (name.pid == pid && name.start_ns < start_ns)
            (void)bpf_map_delete_elem(walk.fd, &name);
}

void cuda_source_reset(void *cuda_source)
{
    struct cuda_source *s = cuda_source;
    _cleanup_(map_walk_end) struct map_walk processes = cuda_source_processes(s);
    struct cuda_process_name name;
    map_clear(bpf_map__fd(s->bpf->maps.waits));
    while (map_walk_next(&processes, &name, NULL))
        (void)bpf_map_delete_elem(processes.fd, &name);
    s->resets++;
}

uint64_t cuda_source_resets(void *cuda_source)
{
    return ((const struct cuda_source *)cuda_source)->resets;
}

/* ---- statistics ---- */

static void cuda_losses(void *self, struct losses *losses)
{
    const struct cuda_source *s = self;
    losses->count[LOSS_MAP_FULL] += s->bpf->bss->uncounted;
    losses->count[LOSS_MISSED] += missed_runs(s->bpf->obj);
}

static void cuda_metrics_fill(void *self, struct metric_set *set)
{
    static const char *const names[CUDA_TIMERS] = {"cuda"};
    const struct cuda_source *s = self;
    run_timers_put(s->bpf->bss->run_timers, names, CUDA_TIMERS, set);
}

static size_t cuda_memory_bytes(void *self)
{
    const struct cuda_source *s = self;
    return shared_tables_bytes_beside(s->tables, s->bpf->obj);
}

static uint64_t cuda_helper_cpu_ns(void *self)
{
    struct uprobe_attachments_stats stats;
    uprobe_attachments_stats(((const struct cuda_source *)self)->attachments, &stats);
    return stats.cpu_ns;
}

static uint64_t cuda_run_time_ns(void *self)
{
    const struct cuda_source *s = self;
    uint64_t runs = 0;
    for (size_t i = 0; i < RUN_TIMER_CPUS; i++)
        runs += s->bpf->bss->run_timers[i][CUDA_TIMER_CALL].runs;
    return run_timers_ns(s->bpf->bss->run_timers, CUDA_TIMERS) + runs * UPROBE_HIT_NS;
}

const struct source source_cuda = {
    .name = "cuda",
    .help = "calls of libcuda by process",
    .open = cuda_open,
    .start = cuda_start,
    .drain = cuda_drain,
    .losses = cuda_losses,
    .metrics = cuda_metrics_fill,
    .memory_bytes = cuda_memory_bytes,
    .helper_cpu_ns = cuda_helper_cpu_ns,
    .run_time_ns = cuda_run_time_ns,
    .free = cuda_free,
};
