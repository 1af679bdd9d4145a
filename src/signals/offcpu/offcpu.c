/* Signal "offcpu": place, reason and duration of the waits of threads. */
#include "sources/offcpu/offcpu.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "signals/offcpu/wait_samples.h"
#include "signals/signal.h"
#include "signals/stack_record.h"

#include "probes/offcpu.h"
#include "probes/unwind/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_WAIT_NS 1000000 /* of the agent */

struct off_cpu_signal {
    const struct signal_services *services;
    void *source; /* NULL: a replay */
    struct wait_samples *waits;
};

static void emit_wait(void *context, const struct sample *waits)
{
    const struct off_cpu_signal *o = context;
    o->services->emit_sample(o->services->pipeline, waits);
}

static void destroy_off_cpu(void *self)
{
    struct off_cpu_signal *o = self;
    wait_samples_free(o->waits);
    free(o);
}

static int create_off_cpu(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct off_cpu_signal *o = calloc(1, sizeof(*o));
    (void)settings;
    if (!o)
        return -ENOMEM;
    *o = (struct off_cpu_signal){.services = services, .source = source};
    int r = wait_samples_new(services->resolver, services->memory_bytes, services->losses, emit_wait, o, &o->waits);
    if (r < 0)
        free(o);
    else
        *ret_self = o;
    return r;
}

static void take_stack(void *self, const struct record_header *header)
{
    const struct off_cpu_signal *o = self;
    const struct stack_record *record = (const struct stack_record *)header;
    wait_samples_stack(o->waits, record);
    if (record->h.pid) /* pid 0: an interrupt, which belongs to no process */
        o->services->note_stack(o->services->pipeline, record->h.pid, record->cgroup_id, record->h.time_ns);
}

static bool check_wait(const struct record_header *header)
{
    const struct off_cpu_wait *w = (const struct off_cpu_wait *)header;

    return header->size_bytes == sizeof(*w) && w->start_ns <= header->time_ns && w->queued_ns <= w->weight_ns &&
           w->waker < OFF_CPU_WAKER_COUNT && memchr(w->comm, 0, sizeof(w->comm));
}

static void take_wait(void *self, const struct record_header *header)
{
    wait_samples_add(((const struct off_cpu_signal *)self)->waits, (const struct off_cpu_wait *)header);
}

static void resolve_waits_of(void *self, uint32_t pid)
{
    wait_samples_flush(((const struct off_cpu_signal *)self)->waits, pid);
}

static void forget_waits_of(void *self, uint32_t pid, uint32_t tid)
{
    wait_samples_forget(((const struct off_cpu_signal *)self)->waits, pid, tid);
}

static void end_turn(void *self, const struct mapped_processes *mapped)
{
    (void)mapped;
    wait_samples_flush_all(((const struct off_cpu_signal *)self)->waits);
}

static uint64_t count_pending(const void *self)
{
    return wait_samples_pending(((const struct off_cpu_signal *)self)->waits);
}

/* The waits that are not in the profile: together with the profile they account for all off-CPU time. */
static void summarize_waits(void *self, struct buf *text)
{
    const struct off_cpu_signal *o = self;
    const struct off_cpu_totals waits = o->source ? off_cpu_source_stats(o->source) : (struct off_cpu_totals){0};
    const uint64_t wakers_unseen = wait_samples_wakers_unseen(o->waits);
    char time[32];
    if (waits.short_count)
        buf_printf(text, "; not recorded: %llu of %s in all, shorter than --min-wait",
                   (unsigned long long)waits.short_count, units_format_duration(waits.short_ns, time, sizeof(time)));
    if (waits.left_out)
        buf_printf(text, "; skipped by sampling: %llu of %s in all, represented by the others",
                   (unsigned long long)waits.left_out, units_format_duration(waits.left_out_ns, time, sizeof(time)));
    if (waits.lost)
        buf_printf(text, "; lost: %llu of %s in all", (unsigned long long)waits.lost,
                   units_format_duration(waits.lost_ns, time, sizeof(time)));
    if (waits.unknown)
        buf_printf(text, "; lost: %llu of unknown duration, of threads beyond the thread table",
                   (unsigned long long)waits.unknown);
    if (wakers_unseen)
        buf_printf(text, "; %llu without a known waker", (unsigned long long)wakers_unseen);
}

/* A waker may be any thread of the node. */
static bool has_wakers(const void *settings)
{
    return ((const struct off_cpu_options *)settings)->wakers;
}

static const struct record_type records[] = {
    {RECORD_OFF_CPU_STACK, stack_record_check, take_stack},
    {RECORD_OFF_CPU_WAKER, stack_record_check, take_stack},
    {RECORD_OFF_CPU, check_wait, take_wait},
    {0},
};

#define FIELD(f) offsetof(struct off_cpu_options, f), sizeof(((struct off_cpu_options *)0)->f)

static const struct setting settings[] = {
    SIGNAL_ENABLED("off_cpu.enabled", "also record place, reason and duration of the waits of threads"),
    {"off_cpu.min_wait", SETTING_DURATION, FIELD(min_wait_ns), 0, 3600e9, "a duration", NULL},
    {"off_cpu.sample_wait", SETTING_DURATION, FIELD(sample_wait_ns), 0, 4e9, "a duration", NULL},
    {"off_cpu.wakers", SETTING_BOOL, FIELD(wakers), 0, 0, "true or false", NULL},
    {0},
};

const struct signal signal_offcpu = {
    .name = "offcpu",
    .memory = {.ring = MEMORY_WAIT_RING, .kept = MEMORY_WAIT_STACKS, .fixed_bytes = 2688u << 10},
    .source = &source_off_cpu,
    .flags = SIGNAL_UNWINDS,
    .sample_type = &sample_type_off_cpu,
    .records = records,
    .settings_bytes = sizeof(struct off_cpu_options),
    .defaults = &(const struct off_cpu_options){.sample_wait_ns = SAMPLE_WAIT_NS},
    .settings = settings,
    .is_node_wide = has_wakers,
    .create = create_off_cpu,
    .destroy = destroy_off_cpu,
    .before_exec = resolve_waits_of,
    .exited = forget_waits_of,
    .turn = end_turn,
    .pending = count_pending,
    .summarize = summarize_waits,
};
