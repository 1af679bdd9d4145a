/* What BPF programs cost (run_timer.bpf.h): shared by the programs and the sources that read it. */
#pragma once

#if !defined(__bpf__)
#include <linux/types.h>
#endif

#define RUN_TIMER_PLACES 8 /* a CPU's begin with a line of cache */
#define RUN_TIMER_CPUS   256
#define RUN_TIMER_EVERY  64
#define RUN_TIMER_MAX_NS 200000

/* The time of all runs is found by sampled_ns * RUN_TIMER_EVERY. */
struct run_timer {
    __u64 runs;
    __u64 sampled_ns;
};
