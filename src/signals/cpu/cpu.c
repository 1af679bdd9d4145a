/* Signal "cpu": CPU samples, and samples of another event than the clock. */
#include "sources/cpu/cpu.h"
#include "model/sample_type.h"
#include "resolve/sample/samples.h"
#include "signals/signal.h"
#include "signals/stack_record.h"
#include "sources/attach/sample_event.h"

#include "probes/event.h"
#include "probes/unwind/stack.h"

static void take_sample(void *self, const struct record_header *header)
{
    const struct signal_services *services = self;
    const struct stack_record *record = (const struct stack_record *)header;
    struct sample sample;
    /* Before resolving, which can take a while for new files; samples meanwhile profit already. */
    services->note_stack(services->pipeline, record->h.pid, record->cgroup_id, record->h.time_ns);
    sample_resolve(services->resolver, record, services->losses, &sample);
    if (services->event_type->name)
        sample.type = services->event_type;
    services->emit_sample(services->pipeline, &sample);
    /* Again, for unwind tables that resolving found missing. */
    services->note_stack(services->pipeline, record->h.pid, record->cgroup_id, record->h.time_ns);
}

static bool check_event(const struct record_header *header)
{
    return sample_event_record_is_sound((const struct event_record *)header);
}

static void take_event(void *self, const struct record_header *header)
{
    const struct signal_services *services = self;
    services->note_sample_event(services->pipeline, (const struct event_record *)header);
}

static const struct record_type records[] = {
    {RECORD_CPU_SAMPLE, stack_record_check, take_sample},
    {RECORD_EVENT, check_event, take_event},
    {0},
};

static const struct setting settings[] = {
    SIGNAL_ENABLED("profile.enabled", "sample the programs on the CPUs"),
    {0},
};

const struct signal signal_cpu = {
    .name = "cpu",
    .memory = {.ring = MEMORY_SAMPLE_RING, .fixed_bytes = 256u << 10},
    .source = &source_cpu,
    .flags = SIGNAL_UNWINDS,
    .sample_type = &sample_type_cpu,
    .records = records,
    .settings_bytes = sizeof(struct signal_settings),
    .defaults = &(const struct signal_settings){.enabled = true},
    .settings = settings,
    .create = signal_create_plain,
};
