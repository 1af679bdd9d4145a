/* Keeps a program at a uprobe on its CPU. The kernel may preempt such programs; from 6.13 on it gives them a stack per
 * CPU all the same, which the program of another thread then overwrites
 * (open-telemetry/opentelemetry-ebpf-instrumentation issue 3056). Each program at a uprobe therefore calls
 * preemption_disable first and preemption_enable last, on every way out, and no global function between the two, which
 * kernels before 6.14 refuse. tools/check-preemption looks for programs that forget it, and tools/check-bpf-stack for
 * such calls. */
#pragma once

#include <stdbool.h>

#include <bpf/bpf_helpers.h>

/* Set before loading: these kernel functions exist (6.10 and later). */
const volatile bool has_preempt_disable = false;
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline void preemption_disable(void)
{
    if (has_preempt_disable)
        bpf_preempt_disable();
}

static __always_inline void preemption_enable(void)
{
    if (has_preempt_disable)
        bpf_preempt_enable();
}
