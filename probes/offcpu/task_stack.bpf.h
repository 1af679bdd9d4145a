/* The start of a stack record of any task. For offcpu.bpf.c, sleeping_tasks.bpf.c and threads.bpf.c. */
#pragma once

#include "probes/common/cgroup.bpf.h"
#include "probes/unwind/unwind_sample.bpf.h"

static __always_inline struct stack_record *stack_begin(struct unwind_scratch *scratch, struct task_struct *task,
                                                        __u64 now)
{
    struct stack_record *s = stack_record_of(scratch);
    unwind_walk_clear(&scratch->walk);
    __builtin_memset(s, 0, sizeof(*s));
    s->h.kind = RECORD_OFF_CPU_STACK;
    s->h.time_ns = now;
    s->h.pid = BPF_CORE_READ(task, tgid);
    s->h.tid = BPF_CORE_READ(task, pid);
    s->flags = STACK_RECORD_LEAF_IN_KERNEL;
    s->cpu = bpf_get_smp_processor_id();
    s->cgroup_id = cgroup_id(cgroup_of(task));
    BPF_CORE_READ_STR_INTO(&s->comm, task, comm);
    return s;
}

/* Takes the kernel stack of a thread that is not running; false: it has started to run. */
static __always_inline bool stack_take_kernel(struct unwind_scratch *scratch, struct task_struct *task)
{
    struct stack_record *s = stack_record_of(scratch);
    long bytes = bpf_get_task_stack(task, scratch->data, STACK_MAX_KERNEL_FRAMES * 8, 0);
    if (bytes <= 0 || bytes > STACK_MAX_KERNEL_FRAMES * 8)
        return false;
    s->kernel_frames = (__u64)bytes / 8;
    if (bytes == STACK_MAX_KERNEL_FRAMES * 8)
        s->flags |= STACK_RECORD_KERNEL_TRUNCATED;
    scratch->walk.base = s->kernel_frames;
    return true;
}
