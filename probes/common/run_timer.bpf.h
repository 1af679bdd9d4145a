/* What programs cost: the kernel's own statistics are off by default, and dear. One run in 64 is timed, and stands for
 * them all. Runs that end at the first look are neither counted nor timed. `program`: below RUN_TIMER_PLACES. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/common/run_timer.h"

struct run_timer run_timers[RUN_TIMER_CPUS][RUN_TIMER_PLACES] __attribute__((aligned(64))); /* CPUs beyond share */

/* The time, or 0 when this run is not timed. */
static __always_inline __u64 timer_start(__u32 program)
{
    struct run_timer *timer = &run_timers[bpf_get_smp_processor_id() & (RUN_TIMER_CPUS - 1)][program];
    return ++timer->runs % RUN_TIMER_EVERY ? 0 : bpf_ktime_get_ns();
}

static __always_inline void timer_stop(__u32 program, __u64 start_ns)
{
    if (!start_ns)
        return;
    __u64 ns = bpf_ktime_get_ns() - start_ns;
    if (ns < RUN_TIMER_MAX_NS) /* else it was interrupted */
        run_timers[bpf_get_smp_processor_id() & (RUN_TIMER_CPUS - 1)][program].sampled_ns += ns;
}
