/* What the programs cost: the kernel's own statistics are off by default, and dear. One run in 64 is timed, and stands
 * for them all. Runs that end at the first look (the thread is in no request) are neither counted nor timed. Part of
 * request.bpf.c. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/request.h"

struct request_timer request_timers[REQUEST_TIMER_CPUS][REQUEST_TIMER_PLACES]
    __attribute__((aligned(64))); /* CPUs beyond share */

/* The time, or 0 when this run is not timed. */
static __always_inline __u64 timer_start(__u32 program)
{
    struct request_timer *timer = &request_timers[bpf_get_smp_processor_id() & (REQUEST_TIMER_CPUS - 1)][program];
    return ++timer->runs % REQUEST_TIMER_EVERY ? 0 : bpf_ktime_get_ns();
}

static __always_inline void timer_stop(__u32 program, __u64 start_ns)
{
    if (!start_ns)
        return;
    __u64 ns = bpf_ktime_get_ns() - start_ns;
    if (ns < REQUEST_TIMER_MAX_NS) /* else it was interrupted */
        request_timers[bpf_get_smp_processor_id() & (REQUEST_TIMER_CPUS - 1)][program].sampled_ns += ns;
}
