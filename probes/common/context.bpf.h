/* Determines the context of a tracepoint program: the current thread's own code, or an interrupt on top of
 * it. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/direct.bpf.h"

/* The kernel's masks (linux/preempt.h). Of the softirq bits, only the one that means that a softirq is being served;
 * the others count local_bh_disable(). */
#define CONTEXT_SOFTIRQ 0x000100
#define CONTEXT_HARDIRQ 0xff0000 /* including NMIs */
#define CONTEXT_UNKNOWN (~0u)    /* not known on this kernel */

/* Set before loading (src/sources/attach/preempt_count.h); 0: unknown. x86-64 keeps the count in per-CPU memory, at a
 * fixed distance from the CPU's run queue, which the current thread points to. Its symbol is not available to programs
 * on kernels whose kallsyms has no data. */
const volatile __s64 preempt_count_distance = 0;

#if defined(__TARGET_ARCH_x86)
static __always_inline __u32 context_count(struct task_struct *current)
{
    __u32 count;
    if (!preempt_count_distance || !bpf_core_field_exists(((struct cfs_rq *)0)->rq))
        return CONTEXT_UNKNOWN;
    const char *rq = (const char *)BPF_CORE_READ(current, se.cfs_rq, rq);
    return rq && bpf_probe_read_kernel(&count, sizeof(count), rq + preempt_count_distance) == 0 ? count
                                                                                                : CONTEXT_UNKNOWN;
}

/* The same where the fields of `current` may be read directly (tp_btf). */
static __always_inline __u32 context_count_direct(struct task_struct *current)
{
    __u32 count;
    if (!preempt_count_distance || !bpf_core_field_exists(((struct cfs_rq *)0)->rq))
        return CONTEXT_UNKNOWN;
    const char *rq = (const char *)current->se.cfs_rq->rq;
    if (has_rdonly_cast) {
        const char *address = bpf_rdonly_cast(rq, 0);
        return DIRECT_CAST(struct refcount_struct, address + preempt_count_distance)
            ->refs.counter; /* begins with an int */
    }
    return bpf_probe_read_kernel(&count, sizeof(count), rq + preempt_count_distance) == 0 ? count : CONTEXT_UNKNOWN;
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

static __always_inline __u32 context_count_direct(struct task_struct *current)
{
    return ((struct task_struct___count *)current)->thread_info.preempt_count;
}
#endif
