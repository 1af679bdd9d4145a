/* The flight recorder's own programs: context switches, wake-ups and ends of threads, files that are waited for, tasks
 * of programs that schedule them themselves. What sockets do is recorded by request.bpf.c, which is at those hooks
 * anyway. Records go to rings that overwrite their oldest ones (recorder/recorder.bpf.h); nothing reads them in
 * ordinary operation.
 *
 * Losses: runs that the kernel skips because the program is already running on that CPU. */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_tracing.h>

#include "probes/common/run_timer.bpf.h"
#include "probes/recorder/recorder_context.bpf.h"
#include "probes/recorder/recorder_disk.bpf.h"
#include "probes/recorder/recorder_file.bpf.h"
#include "probes/recorder/recorder_program.bpf.h"
#include "probes/recorder/recorder_taken.bpf.h"
#include "probes/recorder/recorder_task.bpf.h"
#include "probes/recorder/recorder_timer.h"

char LICENSE[] SEC("license") = "GPL";

SEC("tp_btf/sched_switch")
int BPF_PROG(recorder_switch, bool preempted, struct task_struct *before, struct task_struct *after)
{
    const struct recorder_place place = recorder_place();
    struct recorder_record r;
    if (!place.cpu)
        return 0;
    __u64 start_ns = timer_start(RECORDER_TIMER_SWITCH);
    r.time_ns = bpf_ktime_get_ns();
    record_taken(&place, &r, before, after);
    r.kind = RECORDER_SWITCH;
    r.flags = switch_flags(before, preempted);
    r.tid = before->pid;
    r.value = (__u64)(__u32)before->tgid << 32 | (__u32)after->pid;
    set_no_syscall(&r);
    if (!(before->flags & PF_KTHREAD))
        set_syscall(&r, before);
    recorder_put_scheduler(&place, &r);
    if (!(before->flags & PF_KTHREAD) && is_for_file(&r))
        record_files(&place, &r, before);
    if (has_tasks && !(before->flags & PF_KTHREAD) && !(r.flags & RECORDER_DEAD))
        record_program(r.time_ns,
                       r.flags & RECORDER_PREEMPTED ? RECORDER_AT_PREEMPTION
                       : r.syscall == NR_futex      ? RECORDER_AT_FUTEX
                                                    : RECORDER_AT_SLEEP,
                       r.object);
    timer_stop(RECORDER_TIMER_SWITCH, start_ns);
    return 0;
}

/* In the context of the thread that reads the page, or writes to it. */
SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(recorder_page, struct folio *folio)
{
    const struct recorder_place place = recorder_place();
    if (!place.cpu)
        return 0;
    __u64 start_ns = timer_start(RECORDER_TIMER_PAGES);
    note_added_page(folio);
    timer_stop(RECORDER_TIMER_PAGES, start_ns);
    return 0;
}

static __always_inline void set_current_syscall(struct recorder_record *r)
{
    if (has_task_registers)
        set_syscall(r, bpf_get_current_task_btf());
    else
        set_syscall(r, (struct task_struct *)bpf_get_current_task());
}

/* `is_new`: the woken thread has just been created. That neither completes a future nor releases a lock, so the program
 * of the current thread is not read. */
static __always_inline void record_waking(struct task_struct *task, bool is_new)
{
    const struct recorder_place place = recorder_place();
    const __u64 waker = bpf_get_current_pid_tgid(); /* process and thread */
    struct recorder_record r;
    if (!place.cpu || task->pid == (__u32)waker)
        return;
    __u64 start_ns = timer_start(RECORDER_TIMER_WAKING);
    r.time_ns = bpf_ktime_get_ns();
    r.kind = RECORDER_WAKING;
    r.flags = recorder_context(has_task_registers);
    r.tid = task->pid;
    r.value = waker;
    set_no_syscall(&r);
    if (!r.flags || (is_detailed && r.flags == RECORDER_IN_SOFTIRQ))
        set_current_syscall(&r);
    recorder_put_scheduler(&place, &r);
    if (has_tasks && !r.flags && !is_new)
        record_program(r.time_ns,
                       r.syscall == NR_futex   ? RECORDER_AT_RELEASE
                       : r.syscall == NR_write ? RECORDER_AT_WRITE
                                               : RECORDER_AT_SCHEDULER,
                       r.object);
    timer_stop(RECORDER_TIMER_WAKING, start_ns);
}

/* A thread that wakes itself, or is woken by an interrupt before it left the CPU, has not slept. */
SEC("tp_btf/sched_waking")
int BPF_PROG(recorder_waking, struct task_struct *task)
{
    record_waking(task, false);
    return 0;
}

/* A new thread, by the one that created it. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(recorder_born, struct task_struct *task)
{
    record_waking(task, true);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(recorder_exit, struct task_struct *task)
{
    const struct recorder_place place = recorder_place();
    struct recorder_record r;
    if (!place.cpu)
        return 0;
    __u64 start_ns = timer_start(RECORDER_TIMER_EXIT);
    r.time_ns = bpf_ktime_get_ns();
    r.kind = RECORDER_EXIT;
    r.flags = 0;
    r.syscall = RECORDER_NO_SYSCALL;
    r.tid = task->pid;
    r.object = task->start_time;
    r.value = (__u32)task->tgid;
    recorder_put_object(&place, &r);
    timer_stop(RECORDER_TIMER_EXIT, start_ns);
    return 0;
}

/* ---- block devices ---- */

static __always_inline const void *request_of(const __u64 *arguments)
{
    return (const void *)(issue_passes_queue ? arguments[1] : arguments[0]);
}

SEC("raw_tp/block_rq_insert")
int recorder_request_queued(__u64 *arguments)
{
    if (recorder_place().cpu)
        note_request_queued(request_of(arguments));
    return 0;
}

SEC("raw_tp/block_rq_issue")
int recorder_request_issued(__u64 *arguments)
{
    if (recorder_place().cpu)
        note_request_issued(request_of(arguments));
    return 0;
}

SEC("raw_tp/block_rq_complete")
int recorder_request_ended(__u64 *arguments)
{
    const struct recorder_place place = recorder_place();
    if (!place.cpu)
        return 0;
    __u64 start_ns = timer_start(RECORDER_TIMER_DISK);
    record_request_ended(&place, (const void *)arguments[0], (__u32)arguments[1] != 0, arguments[2]);
    timer_stop(RECORDER_TIMER_DISK, start_ns);
    return 0;
}
