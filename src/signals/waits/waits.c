/* Signal "waits": where threads of servers wait and run, as evidence for the critical paths of requests. */
#include "sources/waits/waits.h"

#include "base/clock.h"
#include "resolve/sample/samples.h"
#include "signals/recent_waits.h"
#include "signals/signal.h"
#include "signals/stack_record.h"

#include <linux/types.h>

#include "probes/unwind/stack.h"
#include "probes/waits.h"

#include <errno.h>
#include <stdlib.h>

struct waits_signal {
    const struct signal_services *services;
    void *source; /* NULL: a replay */
};

static void destroy_waits(void *self)
{
    free(self);
}

static int create_waits(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct waits_signal *w = services->recent_waits ? calloc(1, sizeof(*w)) : NULL;
    (void)settings;
    if (services->recent_waits && !w)
        return -ENOMEM;
    if (w)
        *w = (struct waits_signal){.services = services, .source = source};
    *ret_self = w;
    return 0;
}

static void take_stack(void *self, const struct record_header *header)
{
    struct waits_signal *w = self;
    const struct stack_record *record = (const struct stack_record *)header;
    /* The copy is walked now: it is large, and the mappings are as they were. */
    recent_waits_put_stack(w->services->recent_waits, record->wait.name,
                           sample_walk_copy(w->services->resolver, record));
    w->services->note_stack(w->services->pipeline, record->h.pid, record->cgroup_id, record->h.time_ns);
}

static bool check_wait(const struct record_header *header)
{
    const struct wait_record *r = (const struct wait_record *)header;
    return header->size_bytes == sizeof(*r) && r->start_ns <= header->time_ns;
}

static void take_wait(void *self, const struct record_header *header)
{
    struct waits_signal *w = self;
    const struct wait_record *r = (const struct wait_record *)header;
    recent_waits_put(w->services->recent_waits, header->tid, r->start_ns, header->time_ns, r->stack);
}

static bool check_run(const struct record_header *header)
{
    return header->size_bytes == sizeof(struct run_record);
}

static void take_run(void *self, const struct record_header *header)
{
    struct waits_signal *w = self;
    const struct run_record *r = (const struct run_record *)header;
    recent_waits_put_run(w->services->recent_waits, header->tid, header->time_ns, r->stack);
}

static void watch_wanted(void *self, const struct mapped_processes *mapped)
{
    struct waits_signal *w = self;
    uint32_t pids[RECENT_WAITS_PROCESSES];
    (void)mapped;
    if (w->source)
        waits_source_watch(w->source, pids, recent_waits_wanted(w->services->recent_waits, clock_monotonic_ns(), pids));
}

static const struct record_type records[] = {
    {RECORD_WAIT_STACK, stack_record_check, take_stack},
    {RECORD_WAIT, check_wait, take_wait},
    {RECORD_RUN, check_run, take_run},
    {0},
};

extern const struct signal signal_recorder, signal_request;

const struct signal signal_waits = {
    .name = "waits",
    .memory = {.fixed_bytes = 1536u << 10},
    .source = &source_waits,
    .flags = SIGNAL_AUXILIARY | SIGNAL_UNWINDS,
    .serves = (const struct signal *const[]){&signal_request, &signal_recorder, NULL},
    .records = records,
    .is_node_wide = signal_is_node_wide, /* a path leads through processes that the filter excludes */
    .create = create_waits,
    .destroy = destroy_waits,
    .turn = watch_wanted,
};
