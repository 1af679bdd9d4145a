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

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_LOST_NS 3600000000000ull

static void io_free(void *self)
{
    struct io_source *s = self;
    if (!s)
        return;
    io_slow_records_free(s->slow);
    io_bpf__destroy(s->bpf);
    free(s->stats);
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
    s->cpu_count = libbpf_num_possible_cpus();
    if (s->cpu_count <= 0)
        return -ENODEV;
    s->stats = calloc((size_t)s->cpu_count, sizeof(*s->stats));
    if (!s->stats)
        return -ENOMEM;
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
    map_sum_counters(bpf_map__fd(s->bpf->maps.stats), s->stats, s->cpu_count, &sum, sizeof(sum));
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

/* ---- tables ---- */

size_t io_source_counters_max(void *io_source)
{
    return bpf_map__max_entries(((const struct io_source *)io_source)->bpf->maps.counters);
}

size_t io_source_device_counters_max(void *io_source)
{
    return bpf_map__max_entries(((const struct io_source *)io_source)->bpf->maps.device_counters);
}

size_t io_source_mounts_max(void *io_source)
{
    return bpf_map__max_entries(((const struct io_source *)io_source)->bpf->maps.mount_names);
}

/* The next key is looked for before the element may be deleted: the walk would begin anew after that. */
static int read_counters(const struct bpf_map *map, const struct io_reader *reader)
{
    const int fd = bpf_map__fd(map);
    struct io_key key, next;
    struct io_counters counters;
    int r = bpf_map_get_next_key(fd, NULL, &next) < 0 ? -errno : 0;
    while (r == 0) {
        key = next;
        r = bpf_map_get_next_key(fd, &key, &next) < 0 ? -errno : 0;
        if (bpf_map_lookup_elem(fd, &key, &counters) < 0)
            continue;
        const bool is_final =
            reader->is_final(reader->context, &key, &counters) && map_take_element(fd, &key, &counters);
        reader->take(reader->context, &key, &counters, is_final);
    }
    return r == -ENOENT ? 0 : r;
}

/* As read_counters, but looks up the counters of ended processes only. */
static int take_ended(const struct bpf_map *map, const struct io_reader *reader,
                      bool (*is_ended)(void *context, uint32_t process))
{
    const int fd = bpf_map__fd(map);
    struct io_key key, next;
    struct io_counters counters;
    int r = bpf_map_get_next_key(fd, NULL, &next) < 0 ? -errno : 0;
    while (r == 0) {
        key = next;
        r = bpf_map_get_next_key(fd, &key, &next) < 0 ? -errno : 0;
        if (key.process && is_ended(reader->context, key.process) && map_take_element(fd, &key, &counters))
            reader->take(reader->context, &key, &counters, true);
    }
    return r == -ENOENT ? 0 : r;
}

static bool has_reserve(const struct io_source *s)
{
    return bpf_map__fd(s->bpf->maps.reserve) >= 0;
}

int io_source_read_errors(void *io_source, const struct io_reader *reader)
{
    const struct io_source *s = io_source;
    const int fd = bpf_map__fd(s->bpf->maps.errors);
    struct io_error_key key, next;
    uint64_t count;
    int r = bpf_map_get_next_key(fd, NULL, &next) < 0 ? -errno : 0;
    while (r == 0) {
        key = next;
        r = bpf_map_get_next_key(fd, &key, &next) < 0 ? -errno : 0;
        const bool is_read =
            reader->ends_errors ? map_take_element(fd, &key, &count) : bpf_map_lookup_elem(fd, &key, &count) == 0;
        if (is_read && reader->take_error)
            reader->take_error(reader->context, &key, count, reader->ends_errors);
    }
    return r == -ENOENT ? 0 : r;
}

int io_source_read(void *io_source, const struct io_reader *reader)
{
    const struct io_source *s = io_source;
    const int counters = read_counters(s->bpf->maps.counters, reader),
              reserve = has_reserve(s) ? read_counters(s->bpf->maps.reserve, reader) : 0,
              errors = io_source_read_errors(io_source, reader);
    return counters ?: reserve ?: errors;
}

int io_source_take_ended(void *io_source, const struct io_reader *reader,
                         bool (*is_ended)(void *context, uint32_t process))
{
    const struct io_source *s = io_source;
    const int counters = take_ended(s->bpf->maps.counters, reader, is_ended),
              reserve = has_reserve(s) ? take_ended(s->bpf->maps.reserve, reader, is_ended) : 0;
    return counters ?: reserve;
}

bool io_source_command(void *io_source, uint32_t process, struct io_command *ret)
{
    const struct io_source *s = io_source;
    const bool is_found = bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.process_commands), &process, ret) == 0;
    ret->text[sizeof(ret->text) - 1] = '\0';
    return is_found;
}

int io_source_read_devices(void *io_source, const struct io_device_reader *reader)
{
    return io_block_read(((struct io_source *)io_source)->bpf, reader);
}

bool io_source_counts_misses(void *io_source)
{
    return ((struct io_source *)io_source)->bpf->rodata->counts_misses;
}

bool io_source_device(void *io_source, uint32_t device, struct io_device_name *ret)
{
    return io_block_name(((struct io_source *)io_source)->bpf, device, ret);
}

bool io_source_mount(void *io_source, uint64_t id, struct io_name *ret)
{
    struct io_source *s = io_source;
    return bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.mount_names), &id, ret) == 0;
}

bool io_source_cgroup(void *io_source, uint64_t id, struct io_name *ret)
{
    struct io_source *s = io_source;
    return bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.cgroup_names), &id, ret) == 0;
}

bool io_source_file(void *io_source, const struct io_file_key *key, struct io_name *ret)
{
    struct io_source *s = io_source;
    return bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.file_names), key, ret) == 0;
}

void io_source_forget_mount(void *io_source, uint64_t id)
{
    struct io_source *s = io_source;
    (void)bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.mount_names), &id);
}

void io_source_forget_cgroup(void *io_source, uint64_t id)
{
    struct io_source *s = io_source;
    (void)bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.cgroup_names), &id);
}

static bool is_process_gone(uint64_t pid)
{
    return kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static void sweep_uring(struct io_source *s, uint64_t now_ns)
{
    const int uring = bpf_map__fd(s->bpf->maps.requests);
    uint64_t key, next;
    for (int r = bpf_map_get_next_key(uring, NULL, &next); r == 0;) {
        struct io_request request;
        key = next;
        r = bpf_map_get_next_key(uring, &key, &next);
        if (bpf_map_lookup_elem(uring, &key, &request) == 0 && request.start_ns + REQUEST_LOST_NS < now_ns &&
            bpf_map_delete_elem(uring, &key) == 0)
            s->swept++;
    }
}

static void sweep_aio(struct io_source *s)
{
    const int aio = bpf_map__fd(s->bpf->maps.aio_requests);
    struct aio_key key, next;
    for (int r = aio < 0 ? -1 : bpf_map_get_next_key(aio, NULL, &next); r == 0;) {
        key = next;
        r = bpf_map_get_next_key(aio, &key, &next);
        if (is_process_gone(key.process) && bpf_map_delete_elem(aio, &key) == 0)
            s->swept++;
    }
}

static void sweep_daemons(struct io_source *s)
{
    const int daemons = bpf_map__fd(s->bpf->maps.fuse_daemons);
    uint32_t key, next;
    for (int r = bpf_map_get_next_key(daemons, NULL, &next); r == 0;) {
        key = next;
        r = bpf_map_get_next_key(daemons, &key, &next);
        if (is_process_gone(key))
            (void)bpf_map_delete_elem(daemons, &key);
    }
}

void io_source_sweep(void *io_source, uint64_t now_ns)
{
    struct io_source *s = io_source;
    sweep_uring(io_source, now_ns);
    sweep_aio(io_source);
    sweep_daemons(io_source);
    if (now_ns > REQUEST_LOST_NS)
        s->swept += io_block_sweep(s->bpf, now_ns - REQUEST_LOST_NS);
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
