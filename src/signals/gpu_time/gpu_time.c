/* Signal "gpu_time": GPU time by launch stack, from what libsonde-cuda reports in the observed programs (lib/cuda). The
 * records come from the programs of the CPU source, for `sonde record --gpu`. */
#include "base/buf.h"
#include "base/saturated.h"
#include "resolve/sample/samples.h"
#include "signals/gpu_time/gpu_frames.h"
#include "signals/gpu_time/launch_stacks.h"
#include "signals/signal.h"
#include "signals/stack_record.h"

#include "probes/gpu_time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STACKS_BYTES (16u << 20) /* allocated with the first launches */

struct gpu_time {
    const struct signal_services *services;
    struct launch_stacks *stacks; /* NULL: no launch yet */
    struct gpu_frames frames;
    uint64_t executions, ns;
    uint64_t unlaunched, lost; /* of them: without a stack because it was not taken, or is not known any more */
    uint64_t began, ended;     /* windows */
    uint64_t reported;         /* executions in the sums of the windows that ended */
    uint64_t launches, taken;  /* of the windows that ended: launches; of them, with a stack */
    uint64_t untimed, dropped, unnamed; /* likewise, executions */
    uint64_t refusals;
    struct gpu_window refused; /* the last one */
};

static int create_gpu_time(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct gpu_time *g = calloc(1, sizeof(*g));
    (void)settings;
    (void)source;
    if (!g)
        return -ENOMEM;
    g->services = services;
    *ret_self = g;
    return 0;
}

static void destroy_gpu_time(void *self)
{
    struct gpu_time *g = self;
    launch_stacks_free(g->stacks);
    gpu_frames_clear(&g->frames);
    free(g);
}

/* ---- launches ---- */

static bool check_launch(const struct record_header *header)
{
    return stack_record_check(header) && ((const struct stack_record *)header)->sample.value - 1 < UINT32_MAX;
}

static void take_launch(void *self, const struct record_header *header)
{
    struct gpu_time *g = self;
    const struct stack_record *record = (const struct stack_record *)header;
    g->services->note_stack(g->services->pipeline, header->pid, record->cgroup_id, header->time_ns);
    if (!g->stacks)
        (void)launch_stacks_new(STACKS_BYTES, &g->stacks);
    if (!g->stacks || launch_stacks_put(g->stacks, record) < 0)
        g->services->losses->count[LOSS_NOT_KEPT]++;
}

/* ---- executions ---- */

static bool check_sum(const struct record_header *header)
{
    const struct gpu_sum *s = (const struct gpu_sum *)header;
    return header->size_bytes >= sizeof(*s) && s->count > 0 && s->work < GPU_WORK_COUNT && s->is_graph <= 1 &&
           s->name_bytes <= GPU_NAME_MAX && header->size_bytes == sizeof(*s) + ((s->name_bytes + 7u) & ~7u) &&
           !memchr(s + 1, '\0', s->name_bytes);
}

/* Programs write sums: false where the total of all of them would leave the range of a profile's values. */
static bool add_to_totals(struct gpu_time *g, const struct gpu_sum *sum)
{
    const uint64_t max = INT64_MAX;
    if (sum->count > max - g->executions || sum->ns > max - g->ns)
        return false;
    g->executions += sum->count;
    g->ns += sum->ns;
    return true;
}

/* A record for the process alone. */
static struct stack_record stack_of_process(const struct record_header *header)
{
    struct stack_record s = {.h = *header, .user_end = UNWIND_END_NO_USER};
    s.h.kind = RECORD_GPU_LAUNCH;
    s.h.size_bytes = sizeof(s);
    s.h.tid = header->pid; /* not the thread that reports */
    return s;
}

static void take_sum(void *self, const struct record_header *header)
{
    struct gpu_time *g = self;
    const struct gpu_sum *sum = (const struct gpu_sum *)header;
    if (!add_to_totals(g, sum)) {
        g->services->losses->count[LOSS_DECODE]++;
        return;
    }
    const struct stack_record none = stack_of_process(header);
    const struct stack_record *launch =
        sum->launch && g->stacks ? launch_stacks_get(g->stacks, header->pid, sum->launch) : NULL;
    const char *without = launch ? NULL : sum->launch ? GPU_FRAMES_LOST : GPU_FRAMES_NOT_TAKEN;
    struct sample sample;
    sample_resolve(g->services->resolver, launch ? launch : &none, g->services->losses, &sample);
    g->unlaunched += sum->launch ? 0 : sum->count;
    g->lost += without && sum->launch ? sum->count : 0;
    if (gpu_frames_put(&g->frames, g->services->resolver, sum, without, &sample) < 0) {
        g->services->losses->count[LOSS_NOT_KEPT] += sum->count;
        return;
    }
    g->services->emit_sample(g->services->pipeline, &sample);
    if (launch) /* for unwind tables that resolving found missing */
        g->services->note_stack(g->services->pipeline, header->pid, launch->cgroup_id, header->time_ns);
}

/* ---- windows ---- */

static bool check_window(const struct record_header *header)
{
    const struct gpu_window *w = (const struct gpu_window *)header;
    return header->size_bytes == sizeof(*w) && w->state < GPU_WINDOW_STATE_COUNT &&
           memchr(w->reason, '\0', sizeof(w->reason));
}

static void take_window(void *self, const struct record_header *header)
{
    struct gpu_time *g = self;
    const struct gpu_window *w = (const struct gpu_window *)header;
    switch ((enum gpu_window_state)w->state) {
    case GPU_WINDOW_BEGAN:
        g->began++;
        break;
    case GPU_WINDOW_REFUSED:
        g->refusals++;
        g->refused = *w;
        break;
    case GPU_WINDOW_ENDED:
        g->ended++;
        g->reported = saturated_sum(g->reported, w->executions);
        g->launches = saturated_sum(g->launches, w->launches);
        g->taken = saturated_sum(g->taken, w->stacks);
        g->untimed = saturated_sum(g->untimed, w->untimed);
        g->dropped = saturated_sum(g->dropped, w->dropped);
        g->unnamed = saturated_sum(g->unnamed, w->unnamed);
        break;
    case GPU_WINDOW_STATE_COUNT:
        break;
    }
}

/* The program's memory has other code now; what it launched before is reported before. */
static void forget_process(void *self, uint32_t pid)
{
    struct gpu_time *g = self;
    if (g->stacks)
        launch_stacks_forget(g->stacks, pid);
}

static void forget_exited(void *self, uint32_t pid, uint32_t tid)
{
    if (tid == 0)
        forget_process(self, pid);
}

static void put_count(struct buf *text, uint64_t count, const char *what)
{
    if (count)
        buf_printf(text, "; %llu %s", (unsigned long long)count, what);
}

static void summarize(void *self, struct buf *text)
{
    const struct gpu_time *g = self;
    if (g->began + g->refusals + g->executions == 0)
        return;
    buf_printf(text, "; %llu kernels, copies and memsets", (unsigned long long)g->executions);
    if (g->taken < g->launches)
        buf_printf(text, "; stacks of %llu of %llu launches, chosen at random", (unsigned long long)g->taken,
                   (unsigned long long)g->launches);
    if (g->executions == 0 && g->reported == 0 && g->untimed == 0 && g->dropped == 0)
        put_count(text, g->launches,
                  "launches, none reported as finished: their work is still running, or another profiler reads CUPTI");
    put_count(text, g->unlaunched, "of unknown launches");
    put_count(text, g->lost, "whose launch stack was lost");
    put_count(text, g->untimed, "left out: without plausible times, or not finished");
    put_count(text, g->dropped, "dropped by CUPTI");
    put_count(text, g->unnamed, "beyond the limit of kernel names");
    if (g->began == g->ended && g->reported > g->executions)
        put_count(text, g->reported - g->executions, "whose records were lost");
    if (g->began > g->ended)
        put_count(text, g->began - g->ended, "processes that ended without their last report");
    if (g->refusals) {
        buf_printf(text, "; %llu processes not recorded (pid %u: ", (unsigned long long)g->refusals, g->refused.h.pid);
        buf_put_shown(text, g->refused.reason);
        if (g->refused.error > 0)
            buf_printf(text, ", error %d", g->refused.error);
        buf_putc(text, ')');
    }
}

static const struct record_type records[] = {
    {RECORD_GPU_LAUNCH, check_launch, take_launch},
    {RECORD_GPU_SUM, check_sum, take_sum},
    {RECORD_GPU_WINDOW, check_window, take_window},
    {0},
};

const struct signal signal_gpu_time = {
    .name = "gpu_time",
    .flags = SIGNAL_ALWAYS,
    .records = records,
    .create = create_gpu_time,
    .destroy = destroy_gpu_time,
    .before_exec = forget_process,
    .exited = forget_exited,
    .summarize = summarize,
};
