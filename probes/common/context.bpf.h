/* In what a program runs that was called from a tracepoint: the work of the current thread, or an interrupt that only
 * came upon it. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* The kernel's (linux/preempt.h). Of softirqs the bit that says that one is served: the others count who keeps them
 * away. */
#define CONTEXT_SOFTIRQ 0x000100
#define CONTEXT_HARDIRQ 0xff0000 /* with those that cannot be masked */
#define CONTEXT_UNKNOWN (~0u)    /* this kernel does not tell */

#if defined(__TARGET_ARCH_x86)
/* x86-64 has the count in each CPU's own memory, as its run queue is, to which the current thread leads: so far behind
 * it. By its name the kernel gives it to no program where kallsyms has no data. 0: not known
 * (src/sources/attach/preempt_count.h). */
const volatile __s64 preempt_count_distance = 0;

static __always_inline __u32 context_count(struct task_struct *current)
{
    __u32 count;
    if (!preempt_count_distance || !bpf_core_field_exists(((struct cfs_rq *)0)->rq))
        return CONTEXT_UNKNOWN;
    const char *rq = (const char *)BPF_CORE_READ(current, se.cfs_rq, rq);
    return rq && bpf_probe_read_kernel(&count, sizeof(count), rq + preempt_count_distance) == 0 ? count
                                                                                                : CONTEXT_UNKNOWN;
}
#elif defined(__TARGET_ARCH_arm64)
struct thread_info___count {
    __u64 preempt_count;
} __attribute__((preserve_access_index));

struct task_struct___count {
    struct thread_info___count thread_info;
} __attribute__((preserve_access_index));

static __always_inline __u32 context_count(struct task_struct *current)
{
    return BPF_CORE_READ((struct task_struct___count *)current, thread_info.preempt_count);
}
#endif
