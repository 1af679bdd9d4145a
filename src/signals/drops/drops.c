/* Signal "drops": what the network of the node loses, and an event where that is more than the limits. */
#include "sources/drops/drops.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "signals/event_rate.h"
#include "signals/signal.h"

#include "probes/drops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct drops_signal {
    const struct signal_services *services;
    struct event_rate rates[DROPS_EVENTS]; /* so that many of one kind do not hide another */
};

static int create_drops(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct drops_signal *d = calloc(1, sizeof(*d));
    (void)settings, (void)source;
    if (!d)
        return -ENOMEM;
    d->services = services;
    *ret_self = d;
    return 0;
}

static void destroy_drops(void *self)
{
    free(self);
}

static bool check_drops(const struct record_header *header)
{
    const struct drops_record *r = (const struct drops_record *)header;
    return header->size_bytes == sizeof(*r) && r->event < DROPS_EVENTS && memchr(r->name, 0, sizeof(r->name)) &&
           memchr(r->cgroup, 0, sizeof(r->cgroup));
}

#define TEXT_BYTES 320

/* What happened, and what to do about it. */
static void write_text(const struct drops_record *r, char out[TEXT_BYTES])
{
    char interval[32], peer[DROPS_PEER_BYTES];
    units_format_duration(r->interval_ns, interval, sizeof(interval));
    switch ((enum drops_event)r->event) {
    case DROPS_EVENT_PACKETS:
        snprintf(out, TEXT_BYTES, "the kernel dropped %llu packets in %s%s%s: %s", r->count, interval,
                 r->cgroup[0] ? " of " : "", r->cgroup, r->name);
        break;
    case DROPS_EVENT_RETRANSMISSIONS:
        snprintf(out, TEXT_BYTES,
                 "TCP sent %llu segments to %s again in %s: packets on the way there, or their "
                 "acknowledgements, are lost or late",
                 r->count, drops_peer_text(&r->peer, peer), interval);
        break;
    case DROPS_EVENT_LISTEN:
        snprintf(out, TEXT_BYTES,
                 "port %u of %s (process %u) refused %llu connections in %s; now %u of at most %u wait to "
                 "be accepted: the program accepts too slowly, or its backlog is too small",
                 r->port, r->name, r->h.pid, r->count, interval, r->backlog, r->backlog_max);
        break;
    case DROPS_EVENTS:
        break;
    }
}

static void take_drops(void *self, const struct record_header *header)
{
    static const struct node_event kinds[DROPS_EVENTS] = {
        [DROPS_EVENT_PACKETS] = {.name = "drops.packets"},
        [DROPS_EVENT_RETRANSMISSIONS] = {.name = "drops.retransmission_burst"},
        [DROPS_EVENT_LISTEN] = {.name = "drops.listen_overflow"},
    };
    struct drops_signal *d = self;
    const struct drops_record *r = (const struct drops_record *)header;
    char text[TEXT_BYTES], count[24], pid[16], port[16], peer[DROPS_PEER_BYTES];
    struct node_event_attribute attributes[NODE_EVENT_ATTRIBUTES_MAX];
    size_t used = 0;
    if (!event_rate_allows(&d->rates[r->event], r->h.time_ns))
        return;
    write_text(r, text);
    snprintf(count, sizeof(count), "%llu", r->count);
    attributes[used++] = (struct node_event_attribute){"count", count};
    if (r->cgroup[0])
        attributes[used++] = (struct node_event_attribute){"cgroup", r->cgroup};
    if (r->event == DROPS_EVENT_PACKETS)
        attributes[used++] = (struct node_event_attribute){"reason", r->name};
    if (r->event == DROPS_EVENT_RETRANSMISSIONS)
        attributes[used++] = (struct node_event_attribute){"network.peer.address", drops_peer_text(&r->peer, peer)};
    if (r->event == DROPS_EVENT_LISTEN) {
        snprintf(pid, sizeof(pid), "%u", r->h.pid);
        snprintf(port, sizeof(port), "%u", r->port);
        attributes[used++] = (struct node_event_attribute){"process.pid", pid};
        attributes[used++] = (struct node_event_attribute){"server.port", port};
        attributes[used++] = (struct node_event_attribute){"process.command", r->name};
    }
    struct node_event event = kinds[r->event];
    event.time_ns = r->h.time_ns;
    event.duration_ns = r->interval_ns;
    event.text = text;
    event.attributes = attributes;
    event.attribute_count = used;
    d->services->emit_event(d->services->pipeline, &event);
}

static const struct record_type records[] = {{RECORD_DROPS, check_drops, take_drops}, {0}};

#define FIELD(f) offsetof(struct drops_options, f), sizeof(((struct drops_options *)0)->f)

static const struct setting settings[] = {
    SIGNAL_ENABLED("drops.enabled", "count dropped packets, retransmissions, resets and refused connections"),
    {"drops.packets", SETTING_INTEGER, FIELD(packets), 0, 1e9, "a number of 0 to 1000000000",
     "more dropped packets in 5 seconds are an event"},
    {"drops.retransmissions", SETTING_INTEGER, FIELD(retransmissions), 0, 1e9, "a number of 0 to 1000000000",
     "more segments sent to a peer again in 5 seconds are an event"},
    {0},
};

const struct signal signal_drops = {
    .name = "drops",
    .memory = {.fixed_bytes = 320u << 10},
    .source = &source_drops,
    .flags = SIGNAL_EVENTS | SIGNAL_AUXILIARY,
    .records = records,
    .settings_bytes = sizeof(struct drops_options),
    .defaults = &(const struct drops_options){.enabled = true, .packets = 20, .retransmissions = 100},
    .settings = settings,
    .is_node_wide = signal_is_node_wide,
    .create = create_drops,
    .destroy = destroy_drops,
};
