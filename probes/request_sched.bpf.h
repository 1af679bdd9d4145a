/* What it means that a thread leaves a CPU and comes back. Part of request.bpf.c. */
#pragma once

#include "request_turns.bpf.h"

/* Nothing more is to come for now: the thread waits for work. */
static __always_inline bool is_idle(struct request_connection *c, struct request_thread *t, struct task_struct *task)
{
    struct request_syscall call;
    syscall_of_task(task, &call);
    t->wait_fd = -1;
    if (is_waiting_for_work(call.number))
        return true;
    if (is_poll(call.number)) {
        if (call.argument[1] != 1)
            return true;
        __s32 fd = -1;
        if (bpf_probe_read_user(&fd, sizeof(fd), (const void *)call.argument[0]) == 0)
            t->wait_fd = fd;
        return c && c->replied;
    }
    return c ? c->replied && is_receive(call.number) && (__s32)call.argument[0] == c->fd : false;
}

static __always_inline void stop_running(struct request_thread *t, struct task_struct *task, __u32 tid, bool preempted, __u64 now)
{
    t->off_since_ns = now;
    t->woken_ns = 0;
    t->wait_state = task_wait_state(task);
    t->preempted = preempted || t->wait_state == 0;
    if (t->preempted)
        return;
    struct request_connection *c = current_of(t, tid);
    t->idle = is_idle(c, t, task);
    if (t->idle)
        turn_away(t, tid, now);
    else if (c && c->dirty)
        publish(t->connection, now, false);
}

static __always_inline void run_again(struct request_thread *t, struct task_struct *task, __u32 tid, __u64 now)
{
    __u64 since = t->off_since_ns, woken = t->woken_ns;
    if (!since)
        return;
    t->off_since_ns = 0;
    if (woken < since || woken > now)
        woken = now;
    if (t->idle) {
        t->idle = false;
        t->idle_end_ns = now;
        t->idle_run_queue_ns = now - woken;
        return;
    }
    struct request_connection *c = current_of(t, tid);
    if (!c || since < c->r.start_ns)
        return;
    c->tail = true;
    if (t->preempted) {
        c->tail_run_queue_ns += now - since;
        return;
    }
    c->tail_run_queue_ns += now - woken;
    __u8 state = (t->wait_state & 2 ? REQUEST_WAIT_UNINTERRUPTIBLE : 0) |
                 (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait) ? REQUEST_WAIT_IO : 0);
    add_sleep(c, t, task, state, woken - since);
}
