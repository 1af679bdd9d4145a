/* What a record of the scheduler says of a thread: why it stops running, and the system call that it is in. */
#pragma once

#include "probes/common/syscalls.bpf.h"
#include "probes/common/task.bpf.h"
#include "probes/recorder/recorder.bpf.h"

/* Set before loading. */
const volatile bool has_task_registers =
    true; /* bpf_task_pt_regs and bpf_get_current_task_btf: kernels of 5.15 and later */
const volatile __u32 stack_offset = 16384; /* THREAD_SIZE, where bpf_task_pt_regs is missing */
const volatile bool is_detailed = false;   /* see struct recorder_options */

static __always_inline void set_no_syscall(struct recorder_record *r)
{
    r->syscall = RECORDER_NO_SYSCALL;
    r->object = 0;
}

/* The system call of `task` by the place of its registers: -1: not readable. A function, so that they are not on the
 * stack afterwards. */
static __noinline __s32 find_syscall(struct task_struct *task, __u64 *ret_first)
{
    struct syscall_registers copy;
    const void *top = BPF_CORE_READ(task, stack) + stack_offset;
    if (bpf_probe_read_kernel(&copy, sizeof(copy), top - sizeof(copy)) != 0)
        return -1;
    *ret_first = REGISTERS_FIRST(&copy);
    return REGISTERS_NUMBER(&copy);
}

/* None in exceptions and interrupts. `task` is no kernel thread. Without task registers, its fields may be unreadable
 * directly. */
static __always_inline void set_syscall(struct recorder_record *r, struct task_struct *task)
{
    __s32 number = -1;
    __u64 first = 0;
    if (has_task_registers) {
        const struct syscall_registers *registers = (const struct syscall_registers *)bpf_task_pt_regs(task);
        number = REGISTERS_NUMBER(registers);
        first = REGISTERS_FIRST(registers);
    } else {
        number = find_syscall(task, &first);
    }
    if (number < 0 || number > 0x7fff)
        return;
    r->syscall = number;
    r->object = first;
}

static __always_inline bool is_throttled(struct task_struct *task)
{
    if (bpf_core_field_exists(task->throttled))
        return task->throttled;
    if (bpf_core_field_exists(task->se.cfs_rq) && bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count))
        return task->se.cfs_rq->throttle_count > 0;
    return false;
}

static __always_inline bool is_stalled_for_memory(struct task_struct *task)
{
    return bpf_core_field_exists(task->in_memstall) && BPF_CORE_READ_BITFIELD(task, in_memstall);
}

static __always_inline __u32 state_of(struct task_struct *task)
{
    if (bpf_core_field_exists(((struct task_struct___state_new *)0)->__state))
        return ((struct task_struct___state_new *)task)->__state;
    return ((struct task_struct___state_old *)task)->state;
}

/* Why a thread stops running. */
static __always_inline __u8 switch_flags(struct task_struct *task, bool preempted)
{
    __u32 state = state_of(task);
    if (preempted || state == 0)
        return RECORDER_PREEMPTED | (is_throttled(task) ? RECORDER_THROTTLED : 0);
    return (state & TASK_DEAD ? RECORDER_DEAD : 0) | (state & TASK_UNINTERRUPTIBLE ? RECORDER_UNINTERRUPTIBLE : 0) |
           (state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN) ? RECORDER_STOPPED : 0) |
           (BPF_CORE_READ_BITFIELD(task, in_iowait) ? RECORDER_IO_WAIT : 0) |
           (is_stalled_for_memory(task) ? RECORDER_MEMSTALL : 0);
}
