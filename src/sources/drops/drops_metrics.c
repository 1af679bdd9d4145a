/* The metrics of source "drops": all counters by cgroup, peers, ports. */
#include "sources/drops/drops_private.h"
#include "sources/run_timers.h"

#include "base/clock.h"

#include "drops.skel.h"

#include <stdio.h>

static const char *retransmission_cause(uint32_t counter)
{
    static const char *const names[] = {"syn", "syn_ack", "loss_probe", "timeout", "fast", "slow_start"};
    return counter >= DROPS_SYN && counter <= DROPS_SLOW_START ? names[counter - DROPS_SYN] : NULL;
}

static void put_packets(const struct drops_source *s, struct metric_set *set, const char *cgroup, uint32_t reason,
                        uint64_t value)
{
    const char *name = s->reasons.names[reason];
    const enum drops_class class = s->bpf->rodata->reason_classes[reason];
    if (class == DROPS_EXPECTED)
        return;
    metric_add(
        set, "sonde_drops_packets", METRIC_COUNTER, "",
        "Packets that the kernel dropped, by the cgroup of their socket and the kernel's reason.", (double)value,
        METRIC_LABELS({"cgroup", cgroup}, {"class", class == DROPS_POLICY ? "policy" : "fault"}, {"reason", name}));
}

static void put_counter(const struct drops_source *s, struct metric_set *set, const char *cgroup, uint32_t counter,
                        uint64_t value)
{
    const char *cause = retransmission_cause(counter);
    if (counter < DROPS_REASONS)
        put_packets(s, set, cgroup, counter, value);
    else if (cause)
        metric_add(set, "sonde_drops_retransmissions", METRIC_COUNTER, "",
                   "Segments that TCP sent again, by the cgroup of their socket and the cause.", (double)value,
                   METRIC_LABELS({"cgroup", cgroup}, {"cause", cause}));
    else
        metric_add(set, "sonde_drops_resets", METRIC_COUNTER, "", "Resets of TCP, by the cgroup of their socket.",
                   (double)value,
                   METRIC_LABELS({"cgroup", cgroup}, {"direction", counter == DROPS_RESET_SENT ? "sent" : "received"}));
}

/* The rest of the counters, and the expected packets of all cgroups. */
static void put_others(const struct drops_source *s, struct metric_set *set)
{
    for (uint32_t i = 0; i < DROPS_COUNTERS; i++) {
        const uint64_t value = s->bpf->bss->other_counters[i];
        if (!value)
            continue;
        if (i < DROPS_REASONS && s->bpf->rodata->reason_classes[i] == DROPS_EXPECTED)
            metric_add(set, "sonde_drops_expected_packets", METRIC_COUNTER, "",
                       "Packets that the kernel dropped and that no program lacks, by the kernel's reason.",
                       (double)value,
                       METRIC_LABELS({"reason", s->reasons.names[i][0] ? s->reasons.names[i] : "other"}));
        else
            put_counter(s, set, "other", i, value);
    }
}

static void put_peers(const struct drops_source *s, struct metric_set *set)
{
    for (size_t i = 0; i < s->next.peer_count; i++) {
        const struct drops_peer_total *p = &s->next.peers[i];
        char text[DROPS_PEER_BYTES];
        if (!p->peer.family && !p->count.segments)
            continue;
        metric_add(set, "sonde_drops_peer_retransmissions", METRIC_COUNTER, "",
                   "Segments that TCP sent to a peer again.", (double)p->count.segments,
                   METRIC_LABELS({"peer", drops_peer_text(&p->peer, text)}));
    }
}

static void put_ports(const struct drops_source *s, struct metric_set *set)
{
    const struct drops_listeners *l = &s->listeners;
    for (size_t i = 0; i <= DROPS_MAX_PORTS; i++) {
        char port[16];
        const bool is_rest = i == DROPS_MAX_PORTS;
        if (!l->ports || (is_rest ? !l->ports[i].refused : i >= l->port_count))
            continue;
        const char *cgroup = drops_cgroup_text(&s->names, l->ports[i].cgroup_id);
        snprintf(port, sizeof(port), "%u", l->ports[i].port);
        if (cgroup)
            metric_add(set, "sonde_drops_refused_connections", METRIC_COUNTER, "",
                       "Connections that a listening socket refused, as its accept queue was full.",
                       (double)l->ports[i].refused, METRIC_LABELS({"cgroup", cgroup}, {"port", port}));
    }
}

void drops_put_metrics(struct drops_source *s, struct metric_set *set)
{
    static const char *const programs[DROPS_TIMERS] = {"drops_packet", "drops_retransmission", "drops_reset"};
    drops_read(s, clock_monotonic_ns());
    for (size_t i = 0; i < s->next.count_count; i++) {
        const struct drops_count *c = &s->next.counts[i];
        const char *cgroup = drops_cgroup_text(&s->names, c->key.cgroup_id);
        if (cgroup)
            put_counter(s, set, cgroup, c->key.counter, c->value);
    }
    put_others(s, set);
    put_peers(s, set);
    put_ports(s, set);
    run_timers_put(s->bpf->bss->run_timers, programs, DROPS_TIMERS, set);
}
