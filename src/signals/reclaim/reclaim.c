/* Signal "reclaim": how long threads reclaim or compact memory, and an event where that is long. */
#include "sources/reclaim/reclaim.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "signals/event_rate.h"
#include "signals/signal.h"

#include "probes/reclaim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THRESHOLD_NS 10000000ull

struct reclaim_signal {
    const struct signal_services *services;
    void *source; /* NULL in a replay */
    struct event_rate rate;
};

static int create_reclaim(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct reclaim_signal *s = calloc(1, sizeof(*s));
    (void)settings;
    if (!s)
        return -ENOMEM;
    s->services = services;
    s->source = source;
    *ret_self = s;
    return 0;
}

static void destroy_reclaim(void *self)
{
    free(self);
}

static bool check_reclaim(const struct record_header *header)
{
    const struct reclaim_record *r = (const struct reclaim_record *)header;

    return header->size_bytes == sizeof(*r) && r->kind < RECLAIM_KINDS && memchr(r->comm, 0, sizeof(r->comm));
}

#define TEXT_BYTES (128 + CGROUP_MEMORY_TEXT_BYTES)

static void write_text(const struct reclaim_record *r, const char *cgroup, char out[TEXT_BYTES])
{
    static const char *const kinds[RECLAIM_KINDS] = {"direct reclaim of the node's memory", "direct reclaim of ",
                                                     "compaction of the node's memory"};
    char spent[32], interval[32];
    const char *named = r->kind != RECLAIM_LIMIT ? "" : cgroup[0] ? "cgroup " : "its cgroup";
    snprintf(out, TEXT_BYTES, "%s (thread %u) spent %s of %s in %s%s%s", r->comm, r->h.tid,
             units_format_duration(r->ns, spent, sizeof(spent)),
             units_format_duration(r->interval_ns, interval, sizeof(interval)), kinds[r->kind], named,
             r->kind == RECLAIM_LIMIT ? cgroup : "");
}

static void take_reclaim(void *self, const struct record_header *header)
{
    struct reclaim_signal *s = self;
    const struct reclaim_record *r = (const struct reclaim_record *)header;
    char cgroup[CGROUP_MEMORY_TEXT_BYTES], text[TEXT_BYTES], pid[16], tid[16];
    struct node_event_attribute attributes[NODE_EVENT_ATTRIBUTES_MAX];
    size_t used = 0;
    if (!event_rate_allows(&s->rate, r->h.time_ns))
        return;
    reclaim_cgroup_text(s->source, r->cgroup_id, cgroup);
    write_text(r, cgroup, text);
    char *limit = strstr(cgroup, " (memory.");
    if (limit)
        *limit = '\0';
    snprintf(pid, sizeof(pid), "%u", r->h.pid);
    snprintf(tid, sizeof(tid), "%u", r->h.tid);
    attributes[used++] = (struct node_event_attribute){"kind", reclaim_kind_name(r->kind)};
    if (cgroup[0])
        attributes[used++] = (struct node_event_attribute){"cgroup", cgroup};
    attributes[used++] = (struct node_event_attribute){"process.pid", pid};
    attributes[used++] = (struct node_event_attribute){"thread.id", tid};
    attributes[used++] = (struct node_event_attribute){"thread.name", r->comm};
    s->services->emit_event(s->services->pipeline, &(struct node_event){.time_ns = r->h.time_ns,
                                                                        .duration_ns = r->interval_ns,
                                                                        .name = "reclaim.long",
                                                                        .text = text,
                                                                        .attributes = attributes,
                                                                        .attribute_count = used});
}

static const struct record_type records[] = {{RECORD_RECLAIM, check_reclaim, take_reclaim}, {0}};

#define FIELD(f) offsetof(struct reclaim_options, f), sizeof(((struct reclaim_options *)0)->f)

static const struct setting settings[] = {
    SIGNAL_ENABLED("reclaim.enabled", "measure how long threads reclaim memory"),
    {"reclaim.threshold", SETTING_DURATION, FIELD(threshold_ns), 1e6, 10e9, "a duration of 1ms to 10s, such as 10ms",
     "a thread that reclaims memory for longer, within ten times as much, is an event"},
    {0},
};

const struct signal signal_reclaim = {
    .name = "reclaim",
    .memory = {.fixed_bytes = 256u << 10},
    .source = &source_reclaim,
    .flags = SIGNAL_EVENTS | SIGNAL_AUXILIARY,
    .records = records,
    .settings_bytes = sizeof(struct reclaim_options),
    .defaults = &(const struct reclaim_options){.enabled = true, .threshold_ns = THRESHOLD_NS},
    .settings = settings,
    .is_node_wide = signal_is_node_wide,
    .create = create_reclaim,
    .destroy = destroy_reclaim,
};
