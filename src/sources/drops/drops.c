/* Loads probes/drops.bpf.c and exports its counters. Every few seconds it compares them with their former values, and
 * writes a record where there are more than the limits. The whole node is watched: the task filter does not apply. */
#include "sources/drops/drops.h"

#include "sources/attach/missed_runs.h"
#include "sources/attach/trace_parameters.h"
#include "sources/drops/drops_private.h"
#include "sources/run_timers.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpu_share.h"

#include "drops.skel.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_SHARE  1000            /* one part in so many of a CPU goes to checks, at most */
#define PEER_IDLE_NS 600000000000ull /* then a peer is forgotten */

/* ---- opening ---- */

static void drops_free(void *self)
{
    struct drops_source *s = self;
    if (!s)
        return;
    bpf_link__destroy(s->walk);
    drops_bpf__destroy(s->bpf);
    drops_listeners_clear(&s->listeners);
    cgroup_names_clear(&s->names);
    drops_snapshot_clear(&s->last);
    drops_snapshot_clear(&s->next);
    free(s);
}

static void drops_freep(struct drops_source **s)
{
    drops_free(*s);
}

static void read_ephemeral_ports(uint16_t *first, uint16_t *last)
{
    _cleanup_buf_ struct buf text = {0};
    unsigned low, high;
    if (buf_read_file(&text, "/proc/sys/net/ipv4/ip_local_port_range", 64) < 0 || !text.data ||
        sscanf(text.data, "%u %u", &low, &high) != 2 || low > high || high > UINT16_MAX)
        return;
    *first = (uint16_t)low;
    *last = (uint16_t)high;
}

/* The reasons are the third argument of kfree_skb since Linux 5.17, the receiving socket is the fourth since 6.11. The
 * first parameter is the handler's own. */
static void choose_by_kernel(struct drops_source *s, const struct btf *kernel)
{
    unsigned count = 0;
    const struct btf_param *passed = kernel ? trace_parameters(kernel, "kfree_skb", &count) : NULL;
    s->has_reasons = passed && count >= 4 && drops_reasons_read(kernel, &s->reasons);
    s->bpf->rodata->passes_socket = s->has_reasons && count >= 5 && trace_parameter_is(kernel, &passed[4], "sock");
    for (size_t i = 0; i < DROPS_REASONS; i++)
        s->bpf->rodata->reason_classes[i] = (uint8_t)drops_class_of(s->reasons.names[i]);
    read_ephemeral_ports((uint16_t *)&s->bpf->rodata->first_ephemeral_port,
                         (uint16_t *)&s->bpf->rodata->last_ephemeral_port);
    bpf_program__set_autoload(s->bpf->progs.drops_packet, s->has_reasons);
}

/* The program for listening sockets is attached by its walks. */
static int attach_programs(struct drops_source *s)
{
    const int fd = bpf_map__fd(s->bpf->maps.peers);
    const struct drops_peer rest = {0};
    const struct drops_peer_count none = {0};
    bpf_program__set_autoattach(s->bpf->progs.drops_listeners, false);
    int r = drops_bpf__attach(s->bpf);
    if (r == 0 && bpf_map_update_elem(fd, &rest, &none, BPF_ANY) < 0)
        r = -errno;
    if (r < 0)
        return r;
    s->walk = bpf_program__attach_iter(s->bpf->progs.drops_listeners, NULL);
    return drops_listeners_init(&s->listeners, s->walk ? bpf_link__fd(s->walk) : -1);
}

static int load_programs(struct drops_source *s)
{
    libbpf_set_print(NULL);
    s->bpf = drops_bpf__open();
    if (!s->bpf)
        return -errno;
    struct btf *kernel = btf__load_vmlinux_btf();
    choose_by_kernel(s, kernel);
    btf__free(kernel);
    return drops_bpf__load(s->bpf) ?: attach_programs(s);
}

static int drops_open(const struct source_services *services, const void *options, struct attach_report *report,
                      void **ret_self)
{
    static const char method[] = "tracepoints of TCP and of packets";
    __attribute__((cleanup(drops_freep))) struct drops_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "losses of the network");
    if (!s || !drops_snapshot_init(&s->last) || !drops_snapshot_init(&s->next))
        return -ENOMEM;
    s->tables = services->tables;
    s->options = *(const struct drops_options *)options;
    s->names.is_v2 = true;
    const int r = load_programs(s);
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "nothing that the network loses is counted");
        return r;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    attach_entry_limited(entry, s->has_reasons ? "" : "dropped packets are not counted: the kernel gives no reasons");
    attach_entry_limited(entry, s->walk ? "" : "full accept queues are not found");
    *ret_self = take_ptr(s);
    return 0;
}

/* ---- limits ---- */

struct check {
    struct drops_source *s;
    struct batch *batch; /* NULL: the first check, which only reads */
    uint64_t now_ns;
};

static struct drops_record *add_record(const struct check *c, enum drops_event event, uint64_t cgroup_id,
                                       uint64_t count)
{
    const char *cgroup = cgroup_id == DROPS_NO_SOCKET ? NULL : cgroup_names_find(&c->s->names, cgroup_id);
    struct drops_record *r = c->batch ? batch_reserve(c->batch, sizeof(*r)) : NULL;
    if (!r) {
        c->s->batch_full += c->batch != NULL;
        return NULL;
    }
    r->h.kind = RECORD_DROPS;
    r->h.time_ns = c->now_ns;
    r->cgroup_id = cgroup_id;
    r->count = count;
    r->interval_ns = c->now_ns - c->s->checked_ns;
    r->event = event;
    snprintf(r->cgroup, sizeof(r->cgroup), "%s", cgroup ?: "");
    return r;
}

static uint64_t more_packets(const struct drops_source *s, const struct drops_count *now)
{
    const struct drops_count *before = drops_snapshot_count(&s->last, &now->key);
    return before && before->value <= now->value ? now->value - before->value : now->value;
}

static void check_packets(const struct check *c)
{
    struct drops_source *s = c->s;
    for (size_t i = 0; i < s->next.count_count; i++) {
        const struct drops_count *now = &s->next.counts[i];
        if (now->key.counter >= DROPS_REASONS || s->bpf->rodata->reason_classes[now->key.counter] != DROPS_FAULT)
            continue;
        const uint64_t more = more_packets(s, now);
        if (more <= (uint64_t)s->options.packets)
            continue;
        struct drops_record *r = add_record(c, DROPS_EVENT_PACKETS, now->key.cgroup_id, more);
        if (r)
            snprintf(r->name, sizeof(r->name), "%s", s->reasons.names[now->key.counter]);
    }
}

static void check_peers(const struct check *c)
{
    struct drops_source *s = c->s;
    for (size_t i = 0; i < s->next.peer_count; i++) {
        const struct drops_peer_total *now = &s->next.peers[i];
        const struct drops_peer_total *before = drops_snapshot_peer(&s->last, &now->peer);
        const uint64_t known = before && before->count.segments <= now->count.segments ? before->count.segments : 0;
        const uint64_t more = now->count.segments - known;
        if (!now->peer.family)
            continue;
        if (c->now_ns > now->count.last_ns + PEER_IDLE_NS)
            (void)bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.peers), &now->peer);
        struct drops_record *r = more > (uint64_t)s->options.retransmissions
                                     ? add_record(c, DROPS_EVENT_RETRANSMISSIONS, DROPS_NO_SOCKET, more)
                                     : NULL;
        if (r)
            r->peer = now->peer;
    }
}

static void add_listener(void *context, const struct drops_listener *l, uint32_t count)
{
    const struct check *c = context;
    struct drops_record *r = add_record(c, DROPS_EVENT_LISTEN, l->cgroup_id, count);
    if (!r)
        return;
    r->h.pid = r->h.tid = l->pid;
    r->port = l->port;
    r->backlog = l->backlog;
    r->backlog_max = l->backlog_max;
    memcpy(r->name, l->comm, sizeof(l->comm));
    r->name[sizeof(l->comm) - 1] = '\0';
}

static void check_all(struct check *c)
{
    struct drops_source *s = c->s;
    const uint64_t begin_ns = clock_thread_cpu_ns();
    drops_read(s, c->now_ns);
    check_packets(c);
    check_peers(c);
    if (s->walk)
        (void)drops_listeners_walk(&s->listeners, add_listener, c);
    const struct drops_snapshot swapped = s->last;
    s->last = s->next;
    s->next = swapped;
    const uint64_t took_ns = clock_thread_cpu_ns() - begin_ns;
    s->checked_ns = c->now_ns;
    s->next_check_ns = c->now_ns + cpu_share_rest_ns(took_ns, CHECK_SHARE, DROPS_INTERVAL_NS);
}

static int drops_drain(void *self, struct batch *batch)
{
    struct drops_source *s = self;
    struct check c = {s, batch, clock_monotonic_ns()};
    if (s->is_started && c.now_ns >= s->next_check_ns)
        check_all(&c);
    return 0;
}

static int drops_start(void *self)
{
    struct drops_source *s = self;
    struct check c = {s, NULL, clock_monotonic_ns()};
    s->is_started = true;
    check_all(&c);
    s->bpf->bss->enabled = 1;
    return 0;
}

static int drops_stop(void *self)
{
    struct drops_source *s = self;
    s->is_started = false;
    s->bpf->bss->enabled = 0;
    return 0;
}

/* ---- statistics ---- */

static void drops_losses(void *self, struct losses *losses)
{
    const struct drops_source *s = self;
    losses->count[LOSS_MISSED] += missed_runs(s->bpf->obj);
    losses->count[LOSS_RING_FULL] += s->batch_full;
    losses->count[LOSS_MAP_FULL] += s->listeners.unread;
}

static void drops_metrics(void *self, struct metric_set *set)
{
    drops_put_metrics(self, set);
}

static size_t drops_memory_bytes(void *self)
{
    const struct drops_source *s = self;
    return shared_tables_bytes_beside(s->tables, s->bpf->obj);
}

static uint64_t drops_run_time_ns(void *self)
{
    const struct drops_source *s = self;
    return run_timers_ns(s->bpf->bss->run_timers, DROPS_TIMERS);
}

const struct source source_drops = {
    .name = "drops",
    .help = "what the network of the node loses",
    .open = drops_open,
    .start = drops_start,
    .stop = drops_stop,
    .drain = drops_drain,
    .losses = drops_losses,
    .metrics = drops_metrics,
    .memory_bytes = drops_memory_bytes,
    .run_time_ns = drops_run_time_ns,
    .free = drops_free,
};
