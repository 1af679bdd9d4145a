/* See gpu_probes.h. */
#include "sources/cpu/gpu_probes.h"

#include "sources/attach/sample_event.h"
#include "sources/attach/user_probe.h"

#include <linux/types.h>

#include "probes/common/task_filter.h"

#include "cpu.skel.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define END_MS 2000

struct gpu_probes {
    struct cpu_bpf *k;
    const struct sample_event *event;
    struct user_probes *launches, *records;
};

int gpu_probes_attach(struct cpu_bpf *k, const struct sample_event *event, struct gpu_probes **ret)
{
    _cleanup_(gpu_probes_freep) struct gpu_probes *g = calloc(1, sizeof(*g));
    if (!g)
        return -ENOMEM;
    g->k = k;
    g->event = event;
    int r = user_probes_attach(k->progs.event_gpu_record, event->record_sites, event->record_site_count, &g->records);
    if (r == 0)
        *ret = take_ptr(g);
    return r;
}

int gpu_probes_start(struct gpu_probes *g)
{
    return user_probes_attach(g->k->progs.event_gpu_launch, g->event->sites, g->event->site_count, &g->launches);
}

/* A process that was killed in its window reports no end. */
static bool all_windows_ended(const struct gpu_probes *g)
{
    const volatile typeof(*g->k->bss) *counters = g->k->bss;
    return counters->gpu_windows_ended >= counters->gpu_windows_began;
}

int gpu_probes_stop(struct gpu_probes *g)
{
    const bool were_on = g->launches && user_probes_are_on(g->launches) && user_probes_are_on(g->records);
    user_probes_free(g->launches);
    g->launches = NULL;
    for (unsigned ms = 0; ms < END_MS && !all_windows_ended(g); ms += 10)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return were_on ? 0 : -ECHILD;
}

void gpu_probes_free(struct gpu_probes *g)
{
    if (!g)
        return;
    user_probes_free(g->launches);
    user_probes_free(g->records);
    free(g);
}
