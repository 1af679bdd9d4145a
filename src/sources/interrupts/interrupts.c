/* Loads probes/interrupts.bpf.c, drains its records and exports its counters. The whole node is watched: the task
 * filter does not apply. */
#include "sources/interrupts/interrupts.h"

#include "sources/attach/missed_runs.h"
#include "sources/interrupts/interrupts_private.h"
#include "sources/run_timers.h"

#include "base/cleanup.h"

#include "interrupts.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void detach_vectors(struct interrupts_source *s)
{
    for (size_t i = 0; i < array_size(s->links); i++) {
        bpf_link__destroy(s->links[i]);
        s->links[i] = NULL;
    }
}

static void interrupts_free(void *self)
{
    struct interrupts_source *s = self;
    if (!s)
        return;
    detach_vectors(s);
    record_ring_close(&s->ring);
    interrupts_bpf__destroy(s->bpf);
    free(s);
}

static void interrupts_freep(struct interrupts_source **s)
{
    interrupts_free(*s);
}

static struct bpf_link *attach_raw(const struct bpf_program *program, const char *name, const char *end)
{
    char tracepoint[64];
    snprintf(tracepoint, sizeof(tracepoint), "%s_%s", name, end);
    return bpf_program__attach_raw_tracepoint(program, tracepoint);
}

/* Attaches the programs of the vectors that have no interrupt line. Only x86-64 has such vectors; other machines have
 * interrupt lines for the same purposes. */
static void attach_vectors(struct interrupts_source *s)
{
    static const char *const names[INTERRUPT_TRACEPOINTS] = {"local_timer", "reschedule", "call_function",
                                                             "call_function_single", "irq_work"};
    for (size_t i = 0; i < array_size(names); i++) {
        s->links[2 * i] = attach_raw(s->bpf->progs.interrupts_vector_exit, names[i], "exit");
        s->links[2 * i + 1] = attach_raw(s->bpf->progs.interrupts_vector_entry, names[i], "entry");
    }
}

static int attach_all(struct interrupts_source *s)
{
    const int r = interrupts_bpf__attach(s->bpf);
    if (r == 0)
        attach_vectors(s);
    return r;
}

static int load_programs(struct interrupts_source *s, const struct interrupts_options *options)
{
    const int cpus = libbpf_num_possible_cpus();
    if (cpus <= 0)
        return -ENODEV;
    libbpf_set_print(NULL);
    s->cpu_count = (unsigned)cpus;
    s->bpf = interrupts_bpf__open();
    if (!s->bpf)
        return -errno;
    s->bpf->rodata->threshold_ns = options->threshold_ns;
    s->bpf->rodata->has_recorder = shared_tables_recorder(s->tables) != NULL;
    bpf_program__set_autoattach(s->bpf->progs.interrupts_vector_entry, false);
    bpf_program__set_autoattach(s->bpf->progs.interrupts_vector_exit, false);
    int r = bpf_map__set_max_entries(s->bpf->maps.cpus, s->cpu_count)
                ?: shared_tables_use(s->tables, s->bpf->obj)
                ?: interrupts_bpf__load(s->bpf);
    if (r == 0)
        r = record_ring_open(&s->ring, bpf_map__fd(s->bpf->maps.records)) ?: attach_all(s);
    return r;
}

static int interrupts_open(const struct source_services *services, const void *options, struct attach_report *report,
                           void **ret_self)
{
    static const char method[] = "tracepoints of interrupts";
    _cleanup_(interrupts_freep) struct interrupts_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "interrupts");
    if (!s)
        return -ENOMEM;
    s->tables = services->tables;
    const int r = load_programs(s, options);
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "no interrupts and softirqs are counted");
        return r;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    attach_entry_limited(entry, s->links[0] ? "" : "interrupts without an interrupt line are not counted");
    *ret_self = take_ptr(s);
    return 0;
}

static void enable_programs(struct interrupts_source *s)
{
    s->bpf->bss->enabled = s->is_started && !s->is_shed;
}

static int interrupts_start(void *self)
{
    struct interrupts_source *s = self;
    s->is_started = true;
    enable_programs(s);
    return 0;
}

static int interrupts_stop(void *self)
{
    struct interrupts_source *s = self;
    s->is_started = false;
    enable_programs(s);
    return 0;
}

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "interrupts and softirqs"},
    {SOURCE_DETAIL_NO_OFF_CPU, "no interrupts and softirqs"},
    {0},
};

/* The programs never see the end of a handler that runs while they are detached. */
static void forget_starts(const struct interrupts_source *s)
{
    const int fd = bpf_map__fd(s->bpf->maps.cpus);
    struct interrupts_cpu cpu;
    for (uint32_t i = 0; i < s->cpu_count; i++) {
        if (bpf_map_lookup_elem(fd, &i, &cpu) < 0)
            continue;
        cpu.softirq_start_ns = cpu.interrupt_start_ns = 0;
        (void)bpf_map_update_elem(fd, &i, &cpu, BPF_EXIST);
    }
}

/* The cost is per interrupt, so shedding detaches. */
static int interrupts_shed(void *self, enum source_detail detail)
{
    struct interrupts_source *s = self;
    const bool is_shed = detail >= SOURCE_DETAIL_NO_OFF_CPU;
    int r = 0;
    if (is_shed == s->is_shed)
        return 0;
    if (is_shed) {
        detach_vectors(s);
        interrupts_bpf__detach(s->bpf);
        forget_starts(s);
    } else {
        r = attach_all(s);
    }
    if (r < 0)
        return r;
    s->is_shed = is_shed;
    enable_programs(s);
    return 0;
}

static bool interrupts_is_enabled(void *self)
{
    return ((const struct interrupts_source *)self)->bpf->bss->enabled;
}

static size_t interrupts_poll_fds(void *self, int *ret_fds, size_t max)
{
    if (max == 0)
        return 0;
    ret_fds[0] = record_ring_poll_fd(&((struct interrupts_source *)self)->ring);
    return 1;
}

static int interrupts_drain(void *self, struct batch *batch)
{
    return record_ring_drain(&((struct interrupts_source *)self)->ring, batch);
}

/* ---- statistics ---- */

static void interrupts_losses(void *self, struct losses *losses)
{
    const struct interrupts_source *s = self;
    losses->count[LOSS_RING_FULL] += interrupts_sum(s).records_lost;
    losses->count[LOSS_MISSED] += missed_runs(s->bpf->obj);
    record_ring_losses(&s->ring, losses);
}

static void interrupts_metrics(void *self, struct metric_set *set)
{
    interrupts_put_metrics(self, set);
}

static size_t interrupts_memory_bytes(void *self)
{
    const struct interrupts_source *s = self;
    return shared_tables_bytes_beside(s->tables, s->bpf->obj);
}

static uint64_t interrupts_run_time_ns(void *self)
{
    const struct interrupts_source *s = self;
    return run_timers_ns(s->bpf->bss->run_timers, INTERRUPTS_TIMERS);
}

const struct source source_interrupts = {
    .name = "interrupts",
    .help = "how long interrupts and softirqs keep CPUs",
    .open = interrupts_open,
    .start = interrupts_start,
    .stop = interrupts_stop,
    .poll_fds = interrupts_poll_fds,
    .drain = interrupts_drain,
    .is_enabled = interrupts_is_enabled,
    .losses = interrupts_losses,
    .metrics = interrupts_metrics,
    .memory_bytes = interrupts_memory_bytes,
    .run_time_ns = interrupts_run_time_ns,
    .levels = levels,
    .shed = interrupts_shed,
    .free = interrupts_free,
};
