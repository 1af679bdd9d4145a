/* The source of requests: loads probes/request.bpf.c by the cheapest rung that attaches, hands its records on, and shows the counters
 * that the kernel half keeps for all requests (http_server_request_duration_seconds).
 *
 * Loses what finds the ring or a table full, requests whose end no rung could see, and records of requests that were fast enough
 * to be only counted: all in losses(). */
#include "sources/source.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "sources/request_metrics.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <linux/types.h>

#include "../../probes/request.h"
#include "request.skel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct request_source {
    struct request_bpf *bpf;
    struct ring_buffer *ring;
    struct request_metrics *counters;
    struct batch *batch; /* during a drain */
    uint64_t batch_full;
    bool attached;
};

/* ---- the ladder ---- */

enum request_programs { BY_SOCKET = 1, BY_FUNCTION = 2, BY_SYSCALL = 4, WITH_EVERY_RUNG = 8, IF_SENDPAGE = 16 };

static const struct {
    const char *name;
    unsigned used;
} programs[] = {
    {"request_socket_receive", BY_SOCKET},
    {"request_socket_send", BY_SOCKET},
    {"request_inet_receive", BY_FUNCTION},
    {"request_inet6_receive", BY_FUNCTION},
    {"request_inet_send", BY_FUNCTION},
    {"request_inet6_send", BY_FUNCTION},
    {"request_inet_sendpage", IF_SENDPAGE},
    {"request_syscall_exit", BY_SYSCALL},
    {"request_connection_state", WITH_EVERY_RUNG},
    {"request_switch", WITH_EVERY_RUNG},
    {"request_waking", WITH_EVERY_RUNG},
    {"request_thread_exit", WITH_EVERY_RUNG},
};

static const struct rung {
    const char *name;
    unsigned programs;
    bool task_storage;
    const char *truth;
} rungs[] = {
    {"socket tracepoints", BY_SOCKET | IF_SENDPAGE, true, ""},
    {"socket tracepoints, no sendpage", BY_SOCKET, true, "replies sent by sendfile seem to end with their header"},
    {"fexit of inet_sendmsg, inet_recvmsg", BY_FUNCTION | IF_SENDPAGE, true, ""},
    {"fexit, threads in a hash table", BY_FUNCTION | IF_SENDPAGE, false, ""},
    {"exit of all system calls", BY_SYSCALL, true, "costs every system call on the node about 60 ns; io_uring is not seen"},
    {"exit of all system calls, threads in a hash table", BY_SYSCALL, false,
     "costs every system call on the node about 60 ns; io_uring is not seen"},
};

static bool kernel_has_function(const char *name)
{
    struct btf *btf = btf__load_vmlinux_btf();
    bool has = btf && btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;
    btf__free(btf);
    return has;
}

static void choose_programs(struct request_bpf *bpf, const struct rung *rung, bool has_sendpage)
{
    unsigned used = rung->programs | WITH_EVERY_RUNG;
    if (!has_sendpage)
        used &= ~(unsigned)IF_SENDPAGE;
    for (size_t i = 0; i < array_size(programs); i++) {
        struct bpf_program *program = bpf_object__find_program_by_name(bpf->obj, programs[i].name);
        if (program)
            bpf_program__set_autoload(program, programs[i].used & used);
    }
    bpf_map__set_autocreate(rung->task_storage ? bpf->maps.thread_hash : bpf->maps.thread_storage, false);
}

static void set_options(struct request_bpf *bpf, const struct rung *rung, const struct source_options *options)
{
    bpf->rodata->has_task_storage = rung->task_storage;
    bpf->rodata->skip_pid = options->skip_self ? (uint32_t)getpid() : 0;
    bpf->rodata->wanted_pids = (uint32_t)options->pid_count;
    bpf->rodata->wanted_cgroups = (uint32_t)options->cgroup_count;
    bpf->rodata->wanted_commands = (uint32_t)options->command_count;
    uint32_t ring_bytes = 256 * 1024;
    while (options->ring_bytes && ring_bytes > 65536 && ring_bytes > options->ring_bytes)
        ring_bytes /= 2;
    bpf_map__set_max_entries(bpf->maps.request_ring, ring_bytes);
}

static int fill_filters(struct request_bpf *bpf, const struct source_options *options)
{
    uint8_t one = 1;
    for (size_t i = 0; i < options->pid_count; i++) {
        uint64_t key = options->pids[i];
        if (bpf_map__update_elem(bpf->maps.wanted, &key, sizeof(key), &one, sizeof(one), BPF_ANY) < 0)
            return -errno;
    }
    for (size_t i = 0; i < options->cgroup_count; i++) {
        uint64_t key = options->cgroup_ids[i] | 1ULL << 63;
        if (bpf_map__update_elem(bpf->maps.wanted, &key, sizeof(key), &one, sizeof(one), BPF_ANY) < 0)
            return -errno;
    }
    for (size_t i = 0; i < options->command_count; i++)
        if (bpf_map__update_elem(bpf->maps.wanted_comms, options->commands[i], 16, &one, sizeof(one), BPF_ANY) < 0)
            return -errno;
    return 0;
}

/* Loads and attaches; what attaches sees requests from now on, but the ring is empty until somebody is served. */
static int try_rung(const struct rung *rung, const struct source_options *options, bool has_sendpage, struct request_bpf **ret)
{
    struct request_bpf *bpf = request_bpf__open();
    if (!bpf)
        return -errno;
    choose_programs(bpf, rung, has_sendpage);
    set_options(bpf, rung, options);
    int r = request_bpf__load(bpf);
    if (r == 0)
        r = fill_filters(bpf, options);
    if (r == 0)
        r = request_bpf__attach(bpf);
    if (r < 0) {
        request_bpf__destroy(bpf);
        return r;
    }
    *ret = bpf;
    return 0;
}

static int quiet(enum libbpf_print_level level, const char *format, va_list arguments)
{
    if (getenv("SONDE_LIBBPF_LOG"))
        return vfprintf(stderr, format, arguments);
    (void)level;
    return 0;
}

static int climb(const struct source_options *options, struct attach_report *report, struct request_bpf **ret)
{
    struct attach_entry *entry = attach_report_add(report, "requests");
    bool has_sendpage = kernel_has_function("inet_sendpage");
    const char *forced = getenv("SONDE_REQUEST_RUNG"); /* tests walk the whole ladder on one kernel */
    int r = -ENOTSUP;
    libbpf_print_fn_t before = libbpf_set_print(quiet);
    for (size_t i = 0; i < array_size(rungs); i++) {
        if (forced && strtoul(forced, NULL, 10) != i)
            continue;
        if (!has_sendpage && i == 1)
            continue;
        r = try_rung(&rungs[i], options, has_sendpage, ret);
        if (r == 0) {
            snprintf(entry->rung, sizeof(entry->rung), "%s", rungs[i].name);
            snprintf(entry->truth, sizeof(entry->truth), "%s", rungs[i].truth);
            entry->attached = true;
            break;
        }
        attach_entry_refused(entry, rungs[i].name, r);
    }
    libbpf_set_print(before);
    if (r < 0)
        snprintf(entry->truth, sizeof(entry->truth), "no requests are seen");
    return r;
}

/* ---- records ---- */

static int take(void *context, void *data, size_t size)
{
    struct request_source *s = context;
    const struct wire_header *h = data;
    if (size < sizeof(*h) || h->size_bytes != size || batch_add(s->batch, h) < 0)
        s->batch_full++;
    return 0;
}

static void request_close(void *self)
{
    struct request_source *s = self;
    if (!s)
        return;
    ring_buffer__free(s->ring);
    request_metrics_free(s->counters);
    request_bpf__destroy(s->bpf);
    free(s);
}

static void freep_source(struct request_source **s)
{
    request_close(*s);
}

static int request_open(const struct source_options *options, struct attach_report *report, void **ret_self)
{
    _cleanup_(freep_source) struct request_source *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    int r = climb(options, report, &s->bpf);
    if (r < 0)
        return r;
    s->attached = true;
    s->ring = ring_buffer__new(bpf_map__fd(s->bpf->maps.request_ring), take, s, NULL);
    if (!s->ring)
        return -errno;
    r = request_metrics_new(bpf_map__fd(s->bpf->maps.processes), &s->counters);
    if (r < 0)
        return r;
    *ret_self = take_ptr(s);
    return 0;
}

static int request_start(void *self)
{
    (void)self; /* attached by open: that it attaches is how the rung was chosen */
    return 0;
}

static size_t request_poll_fds(void *self, int *ret_fds, size_t max)
{
    struct request_source *s = self;
    if (max == 0)
        return 0;
    ret_fds[0] = ring_buffer__epoll_fd(s->ring);
    return 1;
}

static int request_drain(void *self, struct batch *batch)
{
    struct request_source *s = self;
    s->batch = batch;
    int r = ring_buffer__consume(s->ring);
    s->batch = NULL;
    request_metrics_sweep(s->counters, clock_monotonic_ns());
    return r < 0 ? r : 0;
}

/* ---- figures ---- */

static uint64_t lost(struct request_source *s, uint32_t reason)
{
    int cpus = libbpf_num_possible_cpus();
    _cleanup_free_ uint64_t *counts = cpus > 0 ? calloc((size_t)cpus, sizeof(uint64_t)) : NULL;
    uint64_t sum = 0;
    if (!counts || bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.request_losses), &reason, counts) < 0)
        return 0;
    for (int i = 0; i < cpus; i++)
        sum += counts[i];
    return sum;
}

static int program_info(const struct bpf_program *program, struct bpf_prog_info *ret)
{
    int fd = bpf_program__fd(program);
    uint32_t size = sizeof(*ret);
    memset(ret, 0, sizeof(*ret));
    return fd < 0 ? -ENOENT : bpf_obj_get_info_by_fd(fd, ret, &size);
}

static void request_losses(void *self, struct losses *losses)
{
    struct request_source *s = self;
    losses->count[LOSS_RING_FULL] += lost(s, REQUEST_LOSS_RING_FULL) + s->batch_full;
    losses->count[LOSS_MAP_FULL] += lost(s, REQUEST_LOSS_MAP_FULL);
    losses->count[LOSS_REQUEST_UNMATCHED] += lost(s, REQUEST_LOSS_UNMATCHED);
    losses->count[LOSS_REQUEST_NOT_DETAILED] += lost(s, REQUEST_LOSS_NOT_DETAILED);
    struct bpf_program *program;
    bpf_object__for_each_program(program, s->bpf->obj) {
        struct bpf_prog_info info;
        if (program_info(program, &info) == 0)
            losses->count[LOSS_MISSED] += info.recursion_misses;
    }
}

static uint64_t request_run_time_ns(void *self)
{
    struct request_source *s = self;
    uint64_t sum = 0;
    struct bpf_program *program;
    bpf_object__for_each_program(program, s->bpf->obj) {
        struct bpf_prog_info info;
        if (program_info(program, &info) == 0)
            sum += info.run_time_ns;
    }
    return sum;
}

static void request_metrics_fill(void *self, struct metric_set *set)
{
    struct request_source *s = self;
    request_metrics_write(s->counters, set);
    struct bpf_program *program;
    bpf_object__for_each_program(program, s->bpf->obj) {
        struct bpf_prog_info info;
        if (program_info(program, &info) < 0)
            continue;
        metric_add(set, "sonde_self_bpf_run_time_seconds", METRIC_COUNTER, "seconds",
                   "Time that BPF programs have run, while the kernel counted it.", (double)info.run_time_ns / 1e9,
                   METRIC_LABELS({"program", bpf_program__name(program)}));
        metric_add(set, "sonde_self_bpf_runs", METRIC_COUNTER, "", "How often BPF programs have run, while the kernel counted it.",
                   (double)info.run_cnt, METRIC_LABELS({"program", bpf_program__name(program)}));
    }
}

/* Of tables that grow by use, what could be in them at most. */
static size_t request_memory_bytes(void *self)
{
    struct request_source *s = self;
    size_t sum = 0;
    struct bpf_map *map;
    bpf_object__for_each_map(map, s->bpf->obj) {
        size_t entries = bpf_map__max_entries(map), value = bpf_map__value_size(map), key = bpf_map__key_size(map);
        if (bpf_map__fd(map) < 0)
            continue;
        if (bpf_map__type(map) == BPF_MAP_TYPE_RINGBUF)
            sum += entries;
        else if (bpf_map__map_flags(map) & BPF_F_NO_PREALLOC)
            sum += 16 * entries; /* buckets; the entries are in the figures of who is served */
        else
            sum += entries * (value + key + 48);
    }
    return sum + request_metrics_bytes(s->counters);
}

static int request_shed(void *self, enum source_detail detail)
{
    struct request_source *s = self;
    s->bpf->bss->counts_only = detail >= SOURCE_DETAIL_COUNTS;
    bool attached = detail < SOURCE_DETAIL_LEAST;
    if (attached == s->attached)
        return 0;
    s->attached = attached;
    if (attached)
        return request_bpf__attach(s->bpf);
    request_bpf__detach(s->bpf);
    return 0;
}

const struct source source_request = {
    .name = "request",
    .help = "HTTP/1 requests served, each with its time taken apart",
    .open = request_open,
    .start = request_start,
    .poll_fds = request_poll_fds,
    .drain = request_drain,
    .losses = request_losses,
    .metrics = request_metrics_fill,
    .memory_bytes = request_memory_bytes,
    .run_time_ns = request_run_time_ns,
    .shed = request_shed,
    .free = request_close,
};
