/* Time that a thread was not on a CPU, and where it goes: to the request that it works on, as a wait and as time in the
 * run queue, or to waiting for work. Part of request.bpf.c. */
#pragma once

#include "probes/request/request_turns.bpf.h"

/* `t` did not run from off_since_ns on: it slept, and then waited `queued_ns` for a CPU. */
static __always_inline void add_absence(struct request_thread *t, struct task_struct *task, __u32 tid,
                                        enum absence_end end, __u64 slept_ns, __u64 queued_ns)
{
    __u64 since = t->off_since_ns;
    t->off_since_ns = 0;
    if (t->idle) {
        t->idle = false;
        t->idle_end_ns = since + slept_ns + queued_ns;
        t->idle_run_queue_ns = queued_ns;
        return;
    }
    struct request_connection *c = current_of(t, tid);
    if (!c || since < c->r.start_ns)
        return;
    c->tail = true;
    c->tail_run_queue_ns += queued_ns;
    if (t->throttled)
        c->tail_throttled_ns += queued_ns;
    if (t->preempted)
        return;
    __u8 state = (t->wait_state & TASK_UNINTERRUPTIBLE ? REQUEST_WAIT_UNINTERRUPTIBLE : 0) |
                 (t->wait_state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN) ? REQUEST_WAIT_STOPPED : 0) |
                 (end != ABSENCE_GUESSED && BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait) ? REQUEST_WAIT_IO : 0);
    add_sleep(c, t, task, state, end, slept_ns);
}

/* `task` was not seen to run again, yet it runs, or did until now: some kernels do not trace a switch away from a
 * thread of process 1 (the agent of a virtual machine, say). The scheduler's own accounts count every switch. What they
 * say of CPU time holds up to the last tick, and up to now if the thread is just leaving the CPU. */
__noinline int catch_up(__u64 task_address, __u32 tid, __u64 now)
{
    struct task_struct *task = (struct task_struct *)task_address;
    struct request_thread *t = thread_find(tid);
    if (!t)
        return 0;
    stolen_begin(t, now);
    __u64 since = t->off_since_ns, woken = t->woken_ns;
    if (!since)
        return 0;
    __u64 ran = task_runtime(task) - t->runtime_ns, away = now - since > ran ? now - since - ran : 0, queued = away,
          slept = 0;
    if (bpf_core_field_exists(task->sched_info.run_delay) && !t->throttled)
        queued = task_queued(task) - t->queued_ns;
    if (!t->preempted && woken > since && woken < since + away)
        slept = woken - since;
    else if (!t->preempted && away > queued)
        slept = away - queued;
    add_absence(t, task, tid, ABSENCE_GUESSED, slept, queued < away - slept ? queued : away - slept);
    return 0;
}
