/* Signal "runqueue": how long threads wait for a CPU, by cgroup, and an event for each long wait. */
#include "sources/runqueue/runqueue.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "signals/event_rate.h"
#include "signals/signal.h"

#include "probes/runqueue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THRESHOLD_NS 20000000ull

struct runqueue_signal {
    const struct signal_services *services;
    struct event_rate rate;
};

static int create_runqueue(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct runqueue_signal *q = calloc(1, sizeof(*q));
    (void)settings, (void)source;
    if (!q)
        return -ENOMEM;
    q->services = services;
    *ret_self = q;
    return 0;
}

static void destroy_runqueue(void *self)
{
    free(self);
}

static bool check_delay(const struct record_header *header)
{
    const struct runqueue_delay *d = (const struct runqueue_delay *)header;

    return header->size_bytes == sizeof(*d) && memchr(d->comm, 0, sizeof(d->comm)) &&
           memchr(d->previous_comm, 0, sizeof(d->previous_comm));
}

static void write_text(const struct runqueue_delay *d, char *out, size_t size)
{
    char delay[32];
    units_format_duration(d->delay_ns, delay, sizeof(delay));
    if (d->previous_tid)
        snprintf(out, size, "%s (thread %u) waited %s for CPU %u, where %s (thread %u) ran before it", d->comm,
                 d->h.tid, delay, d->cpu, d->previous_comm, d->previous_tid);
    else
        snprintf(out, size, "%s (thread %u) waited %s for CPU %u, which was idle before it", d->comm, d->h.tid, delay,
                 d->cpu);
}

static void take_delay(void *self, const struct record_header *header)
{
    struct runqueue_signal *q = self;
    const struct runqueue_delay *d = (const struct runqueue_delay *)header;
    char text[160], pid[16], tid[16], cpu[16], previous_pid[16], previous_tid[16];
    if (!event_rate_allows(&q->rate, d->h.time_ns))
        return;
    write_text(d, text, sizeof(text));
    snprintf(pid, sizeof(pid), "%u", d->h.pid);
    snprintf(tid, sizeof(tid), "%u", d->h.tid);
    snprintf(cpu, sizeof(cpu), "%u", d->cpu);
    snprintf(previous_pid, sizeof(previous_pid), "%u", d->previous_pid);
    snprintf(previous_tid, sizeof(previous_tid), "%u", d->previous_tid);
    const struct node_event_attribute attributes[] = {{"process.pid", pid},
                                                      {"thread.id", tid},
                                                      {"thread.name", d->comm},
                                                      {"cpu", cpu},
                                                      {"previous.pid", previous_pid},
                                                      {"previous.thread.id", previous_tid},
                                                      {"previous.thread.name", d->previous_comm}};
    q->services->emit_event(q->services->pipeline, &(struct node_event){.time_ns = d->h.time_ns,
                                                                        .duration_ns = d->delay_ns,
                                                                        .name = "runqueue.delayed",
                                                                        .text = text,
                                                                        .attributes = attributes,
                                                                        .attribute_count = array_size(attributes)});
}

static const struct record_type records[] = {{RECORD_RUNQUEUE_DELAY, check_delay, take_delay}, {0}};

#define FIELD(f) offsetof(struct runqueue_options, f), sizeof(((struct runqueue_options *)0)->f)

static const struct setting settings[] = {
    SIGNAL_ENABLED("runqueue.enabled", "measure how long threads wait for a CPU"),
    {"runqueue.threshold", SETTING_DURATION, FIELD(threshold_ns), 1e6, 60e9, "a duration of 1ms to 60s, such as 20ms",
     "a longer wait is an event"},
    {0},
};

const struct signal signal_runqueue = {
    .name = "runqueue",
    .memory = {.fixed_bytes = 1920u << 10},
    .source = &source_runqueue,
    .flags = SIGNAL_EVENTS,
    .records = records,
    .settings_bytes = sizeof(struct runqueue_options),
    .defaults = &(const struct runqueue_options){.threshold_ns = THRESHOLD_NS},
    .settings = settings,
    .is_node_wide = signal_is_node_wide,
    .create = create_runqueue,
    .destroy = destroy_runqueue,
};
