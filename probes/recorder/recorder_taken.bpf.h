/* What a CPU did while a thread was the current one on it, other than to run it: the hypervisor ran something else, or
 * interrupts were served. The scheduler does not account that to the thread, where the kernel keeps such accounts. */
#pragma once

#include "probes/recorder/recorder.bpf.h"

#define TAKEN_MIN_NS 50000

/* What the hypervisor has taken from this CPU, by the scheduler's accounts; 0 where that is not known. The run queue is
 * found by way of the thread: the variable itself has a name only in kernels with CONFIG_KALLSYMS_ALL. */
static __always_inline __u64 cpu_stolen(struct task_struct *task)
{
    if (!bpf_core_field_exists(((struct rq *)0)->prev_steal_time_rq) ||
        !bpf_core_field_exists(((struct cfs_rq *)0)->rq))
        return 0;
    return task->se.cfs_rq->rq->prev_steal_time_rq;
}

/* At the switch from `before` to `after`, at r->time_ns. The rest of `r` is room for a record. */
static __always_inline void record_taken(const struct recorder_place *place, struct recorder_record *r,
                                         struct task_struct *before, struct task_struct *after)
{
    struct recorder_cpu *cpu = place->cpu;
    __u64 ran = before->se.sum_exec_runtime - cpu->current_runtime_ns, passed = r->time_ns - cpu->current_ns;
    if (cpu->current_tid && cpu->current_tid == before->pid && passed > ran + TAKEN_MIN_NS) {
        __u64 taken = passed - ran, stolen = cpu_stolen(before), more = stolen - cpu->stolen_ns;
        cpu->stolen_ns = stolen;
        taken = taken < 0xffffffff ? taken : 0xffffffff;
        r->kind = RECORDER_TAKEN;
        r->flags = 0;
        r->syscall = RECORDER_NO_SYSCALL;
        r->tid = before->pid;
        r->object = 0;
        r->value = (more < taken ? more : taken) << 32 | taken;
        recorder_put_scheduler(place, r);
    }
    cpu->current_tid = after->pid;
    cpu->current_ns = r->time_ns;
    cpu->current_runtime_ns = after->se.sum_exec_runtime;
}
