/* Loads probes/io.bpf.c, and reads its tables. The whole node is watched: the task
 * filter does not apply. */
#include "sources/io/io.h"

#include "sources/attach/map_access.h"
#include "sources/attach/missed_runs.h"
#include "sources/io/io_attach.h"
#include "sources/io/io_block.h"
#include "sources/io/io_functions.h"
#include "sources/io/io_private.h"
#include "sources/io/io_selftest.h"
#include "sources/io/io_skeleton.h"
#include "sources/io/io_slow_records.h"
#include "sources/run_timers.h"
#include "sources/tables/shared_tables.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void io_free(void *self)
{
    struct io_source *s = self;
    if (!s)
        return;
    io_slow_records_free(s->slow);
    io_bpf__destroy(s->bpf);
    free(s);
}

static void io_freep(struct io_source **s)
{
    io_free(*s);
}

/* Adds what the programs do not count to the limitations. */
static void test_attachment(struct io_source *s, struct attach_entry *entry)
{
    char missing[64], text[96] = "";
    s->bpf->bss->enabled = true;
    io_selftest(s, bpf_program__autoload(s->bpf->progs.io_map_pages), missing, sizeof(missing));
    s->bpf->bss->enabled = false;
    if (missing[0])
        snprintf(text, sizeof(text), "not counted in a test: %s", missing);
    attach_entry_limited(entry, text);
}

static int io_open(const struct source_services *services, const void *options, struct attach_report *report,
                   void **ret_self)
{
    _cleanup_(io_freep) struct io_source *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->tables = services->tables;
    const struct io_options *o = options;
    const size_t entry = report->count;
    int r = io_attach(services, o, report, &s->bpf);
    if (r < 0)
        return r;
    if (entry < report->count && !o->by_access) /* which would count what programs of the filter do, only */
        test_attachment(s, &report->entries[entry]);
    if (o->slow_ns && (r = io_slow_records_new(s->bpf, o->slow_ns, report, &s->slow)) < 0)
        return r;
    *ret_self = take_ptr(s);
    return 0;
}

static void enable_programs(struct io_source *s)
{
    s->bpf->bss->enabled = s->is_started && !s->is_shed;
}

static int io_start(void *self)
{
    struct io_source *s = self;
    s->is_started = true;
    s->bpf->bss->access_start_ns = clock_monotonic_ns();
    enable_programs(s);
    return 0;
}

static int io_stop(void *self)
{
    struct io_source *s = self;
    s->is_started = false;
    enable_programs(s);
    return 0;
}

static size_t io_poll_fds(void *self, int *ret_fds, size_t max)
{
    const struct io_source *s = self;
    if (max == 0 || !s->slow)
        return 0;
    ret_fds[0] = io_slow_records_fd(s->slow);
    return 1;
}

/* Counters are read from the tables. */
static int io_drain(void *self, struct batch *batch)
{
    const struct io_source *s = self;
    return s->slow ? io_slow_records_drain(s->slow, s->bpf->bss->enabled, batch) : 0;
}

static bool io_is_enabled(void *self)
{
    return ((const struct io_source *)self)->bpf->bss->enabled;
}

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "I/O of file systems and block devices"},
    {SOURCE_DETAIL_LEAST, "no I/O of file systems and block devices"},
    {0},
};

/* Counters that miss a part are worse than none that are said to be missing. */
static int io_shed(void *self, enum source_detail detail)
{
    struct io_source *s = self;
    s->is_shed = detail >= SOURCE_DETAIL_LEAST;
    enable_programs(s);
    return 0;
}

struct io_stats io_source_stats(void *io_source)
{
    const struct io_source *s = io_source;
    struct io_stats sum = {0};
    map_sum_counters(bpf_map__fd(s->bpf->maps.stats), &sum, sizeof(sum));
    return sum;
}

uint64_t io_source_missed(struct io_source *s, const struct io_stats *sum)
{
    const bool by_function = s->bpf->links.io_function_enter;
    return sum->unseen + s->swept +
           (by_function ? sum->unended + io_functions_missed(s->bpf) : missed_runs(s->bpf->obj));
}

static void io_losses(void *self, struct losses *losses)
{
    struct io_source *s = self;
    const struct io_stats sum = io_source_stats(s);
    losses->count[LOSS_MAP_FULL] += sum.counters_full + sum.errors_full + sum.names_full + sum.calls_full +
                                    sum.daemons_full + sum.accesses_full + sum.intervals_full;
    losses->count[LOSS_RING_FULL] += sum.slow_full;
    if (s->slow)
        io_slow_records_losses(s->slow, losses);
    losses->count[LOSS_MISSED] += io_source_missed(s, &sum);
}

static uint64_t io_run_time_ns(void *self)
{
    const struct io_source *s = self;
    return run_timers_ns(s->bpf->bss->run_timers, IO_TIMERS);
}

static void io_metrics(void *self, struct metric_set *set)
{
    static const char *const names[IO_TIMERS] = {"io_begin", "io_end", "io_uring", "io_device"};
    struct io_source *s = self;
    run_timers_put(s->bpf->bss->run_timers, names, IO_TIMERS, set);
    metric_add(set, "sonde_io_operations_folded", METRIC_COUNTER, "",
               "Operations that found the kernel's table full and count for job \"other\".",
               (double)io_source_stats(s).counters_full, METRIC_NO_LABELS);
}

static size_t io_memory_bytes(void *self)
{
    struct io_source *s = self;
    return shared_tables_bytes_beside(s->tables, s->bpf->obj);
}

const struct source source_io = {
    .name = "io",
    .help = "what programs read, write and ask of file systems",
    .open = io_open,
    .start = io_start,
    .stop = io_stop,
    .poll_fds = io_poll_fds,
    .drain = io_drain,
    .is_enabled = io_is_enabled,
    .losses = io_losses,
    .metrics = io_metrics,
    .memory_bytes = io_memory_bytes,
    .run_time_ns = io_run_time_ns,
    .levels = levels,
    .shed = io_shed,
    .free = io_free,
};
