/* The request source: loads probes/request.bpf.c by the cheapest method that attaches, drains its records, and reads
 * the counters that the BPF programs keep for all requests.
 *
 * Reports as losses what finds the ring or a table full, requests whose end no method could see, and requests without
 * a record because they were fast enough to be only counted. */
#include "sources/request/request.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "sources/attach/missed_runs.h"
#include "sources/events/record_ring.h"
#include "sources/request/http2/http2_drain.h"
#include "sources/request/request_attach.h"
#include "sources/run_timers.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/types.h>

#include "probes/request.h"
#include "probes/request/service_call.h"
#include "request.skel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(REQUEST_SOURCE_PROCESSES_MAX == REQUEST_PROCESSES_MAX + HTTP2_PROCESSES_MAX, "places of both");

#define FLUSH_PERIOD_NS 50000000 /* a drain may follow another one at once */

struct request_source {
    struct request_bpf *bpf;
    struct record_ring ring;
    struct http2_drain *http2;
    const struct shared_tables *tables;
    uint64_t flushed_ns;
    struct uprobe_attachments *tls; /* NULL: the plaintext of TLS is not read */
    bool has_forgotten_tls;         /* reading is stopped, and no process counts as one whose TLS is read */
};

static void request_close(void *self)
{
    struct request_source *s = self;
    if (!s)
        return;
    uprobe_attachments_free(s->tls); /* first: it uses the programs */
    record_ring_close(&s->ring);
    http2_drain_free(s->http2);
    request_bpf__destroy(s->bpf);
    free(s);
}

static void freep_source(struct request_source **s)
{
    request_close(*s);
}

static int new_tls_attachments(struct request_source *s)
{
    const struct request_bpf *bpf = s->bpf;
    const bool in_loop = bpf->rodata->has_preempt_disable; /* as request_attach.c has loaded them */
    struct bpf_program *end = in_loop ? bpf->progs.tls_return : bpf->progs.tls_return_by_calls;
    const struct uprobe_programs kinds[TLS_PROBES] = {
        [TLS_PROBE_READ] = {bpf->progs.tls_read, end},
        [TLS_PROBE_READ_EX] = {bpf->progs.tls_read_ex, end},
        [TLS_PROBE_WRITE] = {bpf->progs.tls_write, end},
        [TLS_PROBE_WRITE_EX] = {bpf->progs.tls_write_ex, end},
        [TLS_PROBE_WRITE_EX2] = {bpf->progs.tls_write_ex2, end},
        [TLS_PROBE_FREE] = {bpf->progs.tls_free, NULL},
        [TLS_PROBE_BIO_WRITE] = {bpf->progs.tls_bio_write, NULL},
        [TLS_PROBE_NEW] = {NULL, bpf->progs.tls_new},
        [TLS_PROBE_GO_READ] = {bpf->progs.tls_go_read, NULL},
        [TLS_PROBE_GO_TEXT] = {in_loop ? bpf->progs.tls_go_text : bpf->progs.tls_go_text_by_calls, NULL},
        [TLS_PROBE_GO_WRITE] = {bpf->progs.tls_go_write, NULL},
    };
    return uprobe_attachments_new("sonde-tls", kinds, TLS_PROBES, &s->tls);
}

int request_source_open_on(const struct source_services *services, struct attach_report *report, int method, bool tls,
                           void **ret_self)
{
    _cleanup_(freep_source) struct request_source *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    int r = request_attach_best(services, report, method, tls, &s->bpf);
    if (r < 0)
        return r;
    s->tables = services->tables;
    r = record_ring_open(&s->ring, bpf_map__fd(s->bpf->maps.request_ring));
    if (r < 0)
        return r;
    r = http2_drain_new(bpf_map__fd(s->bpf->maps.http2_ring), s->bpf->rodata->records_a_window, services->sampling_seed,
                        &s->http2);
    if (r < 0)
        return r;
    r = s->bpf->rodata->reads_tls ? new_tls_attachments(s) : 0;
    if (r < 0)
        return r;
    *ret_self = take_ptr(s);
    return 0;
}

static int request_open(const struct source_services *services, const void *options, struct attach_report *report,
                        void **ret_self)
{
    const struct request_options *o = options;
    return request_source_open_on(services, report, REQUEST_METHOD_BEST, o && o->tls, ret_self);
}

static int request_start(void *self)
{
    (void)self; /* attached by open: attaching is how the method was chosen */
    return 0;
}

/* Publishes requests of connections that say nothing any more. */
static int flush(struct request_source *s)
{
    LIBBPF_OPTS(bpf_test_run_opts, run);
    s->flushed_ns = clock_monotonic_ns();
    return bpf_prog_test_run_opts(bpf_program__fd(s->bpf->progs.request_flush), &run);
}

static int request_stop(void *self)
{
    struct request_source *s = self;
    s->bpf->bss->asleep = true;
    s->bpf->bss->flushes_all = true;
    return flush(s);
}

static size_t request_poll_fds(void *self, int *ret_fds, size_t max)
{
    struct request_source *s = self;
    if (max < 2)
        return 0;
    ret_fds[0] = record_ring_poll_fd(&s->ring);
    ret_fds[1] = http2_drain_poll_fd(s->http2);
    return 2;
}

/* Once reading is stopped, no process counts as one whose TLS is read. Until all is detached, programs note some again.
 */
static void turn_tls(struct request_source *s)
{
    struct uprobe_attachments_stats stats;
    if (!s->tls)
        return;
    uprobe_attachments_turn(s->tls);
    if (!uprobe_attachments_is_stopped(s->tls) || s->has_forgotten_tls)
        return;
    uprobe_attachments_stats(s->tls, &stats);
    memset(s->bpf->bss->tls_processes, 0, sizeof(s->bpf->bss->tls_processes));
    s->has_forgotten_tls = !stats.attached && !stats.waiting;
}

static int request_drain(void *self, struct batch *batch)
{
    struct request_source *s = self;
    turn_tls(s);
    const bool is_due = clock_monotonic_ns() >= s->flushed_ns + FLUSH_PERIOD_NS;
    int r = is_due ? flush(s) : 0;
    if (r == 0)
        r = http2_drain_run(s->http2, batch);
    if (r < 0)
        return r;
    return record_ring_drain(&s->ring, batch);
}

/* ---- statistics ---- */

static uint64_t read_loss(struct request_source *s, uint32_t reason)
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

static void request_losses(void *self, struct losses *losses)
{
    struct request_source *s = self;
    losses->count[LOSS_RING_FULL] += read_loss(s, REQUEST_LOSS_RING_FULL);
    losses->count[LOSS_MAP_FULL] += read_loss(s, REQUEST_LOSS_MAP_FULL);
    losses->count[LOSS_REQUEST_UNMATCHED] += read_loss(s, REQUEST_LOSS_UNMATCHED);
    losses->count[LOSS_REQUEST_NOT_DETAILED] += read_loss(s, REQUEST_LOSS_NOT_DETAILED);
    losses->count[LOSS_REQUEST_UNBOUND] += read_loss(s, REQUEST_LOSS_TLS_UNBOUND);
    losses->count[LOSS_CALL_UNCOUNTED] += s->bpf->bss->service_calls_missed;
    losses->count[LOSS_STREAM_UNREAD] += read_loss(s, REQUEST_LOSS_STREAM_UNREAD);
    losses->count[LOSS_MISSED] += missed_runs(s->bpf->obj);
    record_ring_losses(&s->ring, losses);
    http2_drain_losses(s->http2, losses);
}

static uint64_t tls_runs(const struct request_source *s)
{
    uint64_t runs = 0;
    for (size_t i = 0; i < RUN_TIMER_CPUS; i++)
        runs += s->bpf->bss->run_timers[i][REQUEST_TIMER_TLS].runs;
    return runs;
}

static uint64_t request_run_time_ns(void *self)
{
    const struct request_source *s = self;
    return run_timers_ns(s->bpf->bss->run_timers, REQUEST_TIMERS) + tls_runs(s) * UPROBE_HIT_NS;
}

static void request_metrics_fill(void *self, struct metric_set *set)
{
    static const char *const names[REQUEST_TIMERS] = {"request_receive", "request_send",  "request_record",
                                                      "request_ready",   "request_flush", "request_tls"};
    const struct request_source *s = self;
    run_timers_put(s->bpf->bss->run_timers, names, REQUEST_TIMERS, set);
}

/* For maps that grow with use: the maximum size. */
static size_t request_memory_bytes(void *self)
{
    struct request_source *s = self;
    size_t sum = http2_drain_bytes(s->http2);
    struct bpf_map *map;
    bpf_object__for_each_map(map, s->bpf->obj)
    {
        size_t entries = bpf_map__max_entries(map), value = bpf_map__value_size(map), key = bpf_map__key_size(map);
        if (bpf_map__fd(map) < 0 || shared_tables_own(s->tables, map))
            continue;
        if (bpf_map__type(map) == BPF_MAP_TYPE_RINGBUF)
            sum += entries;
        else if (bpf_map__map_flags(map) & BPF_F_NO_PREALLOC)
            sum += 16 * entries; /* buckets; the entries are counted per served process */
        else
            sum += entries * (value + key + 48);
    }
    return sum;
}

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "counts, rates and latencies of requests"},
    {0},
};

uint64_t request_source_process_name(void *request_source, uint32_t place)
{
    const struct request_source *s = request_source;
    if (place >= REQUEST_PROCESSES_MAX)
        return http2_drain_process_name(s->http2, place - REQUEST_PROCESSES_MAX);
    return ((const volatile uint64_t *)s->bpf->bss->process_names)[place];
}

bool request_source_read_process(void *request_source, uint32_t place, uint64_t *ret_name, struct request_process *ret)
{
    struct request_source *s = request_source;
    if (place >= REQUEST_PROCESSES_MAX)
        return http2_drain_read_process(s->http2, place - REQUEST_PROCESSES_MAX, ret_name, ret);
    *ret_name = request_source_process_name(s, place);
    return *ret_name && bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.processes), &place, ret) == 0;
}

void request_source_forget_process(void *request_source, uint32_t place)
{
    const struct request_source *s = request_source;
    if (place >= REQUEST_PROCESSES_MAX)
        http2_drain_forget_process(s->http2, place - REQUEST_PROCESSES_MAX);
    else
        request_attach_forget_process(s->bpf, place);
}

bool request_source_read_opaque(void *request_source, uint32_t place, uint64_t *ret_name, struct request_opaque *ret)
{
    const struct request_source *s = request_source;
    *ret_name = ((const volatile uint64_t *)s->bpf->bss->opaque_names)[place];
    if (*ret_name)
        *ret = s->bpf->bss->opaque_traffic[place];
    return *ret_name != 0;
}

void request_source_forget_opaque(void *request_source, uint32_t place)
{
    request_attach_forget_opaque(((struct request_source *)request_source)->bpf, place);
}

uint64_t request_source_opaque_overflow(void *request_source)
{
    return ((const struct request_source *)request_source)->bpf->bss->opaque_overflow_bytes;
}

struct uprobe_attachments *request_source_tls(void *request_source)
{
    return ((struct request_source *)request_source)->tls;
}

size_t request_source_tls_buffered(void *request_source, uint32_t *ret_pids, size_t max)
{
    const struct request_source *s = request_source;
    const int map = bpf_map__fd(s->bpf->maps.tls_buffered);
    uint32_t pid;
    size_t count = 0;
    if (!s->tls || bpf_map_get_next_key(map, NULL, &pid) < 0)
        return 0;
    do
        ret_pids[count++] = pid;
    while (count < max && bpf_map_get_next_key(map, &pid, &pid) == 0);
    return count;
}

bool request_source_reads_tls(void *request_source, uint32_t pid)
{
    const struct request_source *s = request_source;
    return s->bpf->bss->tls_processes[pid % sizeof(s->bpf->bss->tls_processes)];
}

uint64_t request_source_tls_runs(void *request_source)
{
    return tls_runs(request_source);
}

void request_source_tls_forget(void *request_source, uint32_t pid)
{
    const struct request_source *s = request_source;
    if (s->tls)
        (void)bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.tls_buffered), &pid);
}

static uint64_t request_helper_cpu_ns(void *self)
{
    const struct request_source *s = self;
    struct uprobe_attachments_stats stats = {0};
    if (s->tls)
        uprobe_attachments_stats(s->tls, &stats);
    return stats.cpu_ns;
}

struct map_walk request_source_service_calls(void *request_source)
{
    const struct request_source *s = request_source;
    struct map_walk walk;
    map_walk_begin(&walk, bpf_map__fd(s->bpf->maps.service_calls));
    return walk;
}

void request_source_forget_service_call(void *request_source, const struct service_call_key *key)
{
    const struct request_source *s = request_source;
    (void)bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.service_calls), key);
}

bool request_source_service_process(void *request_source, const struct service_address *address,
                                    struct service_process *ret)
{
    const struct request_source *s = request_source;
    return bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.service_addresses), address, ret) == 0;
}

void request_source_http2_asked(void *request_source, uint64_t cookie, uint64_t from_ns, uint64_t to_ns,
                                char out[HTTP2_CALL_BYTES])
{
    const struct request_source *s = request_source;
    http2_drain_asked(s->http2, cookie, from_ns, to_ns, out);
}

void request_source_take_http2_calls(void *request_source, http2_calls_taker *take, void *context)
{
    http2_drain_take_calls(((struct request_source *)request_source)->http2, take, context);
}

bool request_source_peer(void *request_source, uint64_t cookie, struct request_peer *ret)
{
    const struct request_source *s = request_source;
    const uint32_t place = cookie % REQUEST_PEERS_MAX;
    return cookie && bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.peers), &place, ret) == 0 && ret->socket == cookie;
}

const struct source source_request = {
    .name = "request",
    .help = "HTTP and gRPC requests served, each with a latency breakdown",
    .open = request_open,
    .start = request_start,
    .stop = request_stop,
    .poll_fds = request_poll_fds,
    .drain = request_drain,
    .losses = request_losses,
    .metrics = request_metrics_fill,
    .memory_bytes = request_memory_bytes,
    .helper_cpu_ns = request_helper_cpu_ns,
    .run_time_ns = request_run_time_ns,
    .levels = levels,
    .free = request_close,
};
