/* Signal "interrupts": how long interrupts and softirqs keep CPUs, and an event for each that ran for long. */
#include "sources/interrupts/interrupts.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "signals/event_rate.h"
#include "signals/signal.h"
#include "sources/interrupt_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THRESHOLD_NS 1000000ull

struct interrupts_signal {
    const struct signal_services *services;
    struct event_rate rate;
};

static int create_interrupts(const struct signal_services *services, const void *settings, void *source,
                             void **ret_self)
{
    struct interrupts_signal *s = calloc(1, sizeof(*s));
    (void)settings, (void)source;
    if (!s)
        return -ENOMEM;
    s->services = services;
    *ret_self = s;
    return 0;
}

static void destroy_interrupts(void *self)
{
    free(self);
}

static bool check_interrupt(const struct record_header *header)
{
    const struct interrupt_record *r = (const struct interrupt_record *)header;

    return header->size_bytes == sizeof(*r) && memchr(r->comm, 0, sizeof(r->comm)) &&
           memchr(r->name, 0, sizeof(r->name)) &&
           (r->number >= INTERRUPT_FIRST_LINE || interrupt_static_name(r->number));
}

static void write_text(const struct interrupt_record *r, const char *name, char *out, size_t size)
{
    const bool is_softirq = r->number < INTERRUPTS_SOFTIRQS;
    char duration[32];
    units_format_duration(r->duration_ns, duration, sizeof(duration));
    const int used = snprintf(out, size, "CPU %u ran %s %s for %s", r->cpu,
                              is_softirq ? "softirq" : "the handler of interrupt", name, duration);
    const bool is_ksoftirqd = is_softirq && strncmp(r->comm, "ksoftirqd/", 10) == 0;
    if (r->h.tid && used > 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, ", %s %s (thread %u)", is_ksoftirqd ? "in" : "which interrupted",
                 r->comm, r->h.tid);
}

static void take_interrupt(void *self, const struct record_header *header)
{
    struct interrupts_signal *s = self;
    const struct interrupt_record *r = (const struct interrupt_record *)header;
    const char *name = interrupt_static_name(r->number) ?: r->name;
    char text[160], cpu[16], irq[16], pid[16], tid[16];
    struct node_event_attribute attributes[NODE_EVENT_ATTRIBUTES_MAX];
    size_t used = 0;
    if (!event_rate_allows(&s->rate, r->h.time_ns))
        return;
    write_text(r, name, text, sizeof(text));
    snprintf(cpu, sizeof(cpu), "%u", r->cpu);
    snprintf(irq, sizeof(irq), "%u", r->number - INTERRUPT_FIRST_LINE);
    snprintf(pid, sizeof(pid), "%u", r->h.pid);
    snprintf(tid, sizeof(tid), "%u", r->h.tid);
    attributes[used++] = (struct node_event_attribute){"cpu", cpu};
    attributes[used++] = (struct node_event_attribute){r->number < INTERRUPTS_SOFTIRQS ? "softirq" : "interrupt", name};
    if (r->number >= INTERRUPT_FIRST_LINE)
        attributes[used++] = (struct node_event_attribute){"irq", irq};
    if (r->h.tid) {
        attributes[used++] = (struct node_event_attribute){"process.pid", pid};
        attributes[used++] = (struct node_event_attribute){"thread.id", tid};
        attributes[used++] = (struct node_event_attribute){"thread.name", r->comm};
    }
    s->services->emit_event(s->services->pipeline, &(struct node_event){.time_ns = r->h.time_ns,
                                                                        .duration_ns = r->duration_ns,
                                                                        .name = "interrupts.long",
                                                                        .text = text,
                                                                        .attributes = attributes,
                                                                        .attribute_count = used});
}

static bool is_node_wide(const void *settings)
{
    (void)settings;
    return true;
}

static const struct record_type records[] = {{RECORD_INTERRUPT, check_interrupt, take_interrupt}, {0}};

#define FIELD(f) offsetof(struct interrupts_options, f), sizeof(((struct interrupts_options *)0)->f)

static const struct setting settings[] = {
    SIGNAL_ENABLED("interrupts.enabled", "measure how long interrupts and softirqs keep CPUs"),
    {"interrupts.threshold", SETTING_DURATION, FIELD(threshold_ns), 1e5, 60e9,
     "a duration of 100us to 60s, such as 1ms", "an interrupt or softirq that runs for longer is an event"},
    {0},
};

const struct signal signal_interrupts = {
    .name = "interrupts",
    .memory = {.fixed_bytes = 224u << 10},
    .source = &source_interrupts,
    .flags = SIGNAL_EVENTS,
    .records = records,
    .settings_bytes = sizeof(struct interrupts_options),
    .defaults = &(const struct interrupts_options){.threshold_ns = THRESHOLD_NS},
    .settings = settings,
    .is_node_wide = is_node_wide,
    .create = create_interrupts,
    .destroy = destroy_interrupts,
};
