/* What it means that a thread leaves a CPU and comes back. Part of request.bpf.c. */
#pragma once

#include "probes/request/request_absence.bpf.h"

/* Nothing more is to come for now: the thread waits for work. */
static __always_inline bool is_idle(struct request_connection *c, struct request_thread *t,
                                    const struct request_syscall *call)
{
    t->wait_fd = -1;
    if (is_waiting_for_work(call->number))
        return true;
    if (is_poll(call->number)) {
        if (call->argument[1] != 1)
            return true;
        __s32 fd = -1;
        if (bpf_probe_read_user(&fd, sizeof(fd), (const void *)call->argument[0]) == 0)
            t->wait_fd = fd;
        return c && c->replied;
    }
    return c ? c->replied && is_receive(call->number) && (__s32)call->argument[0] == c->fd : false;
}

static __always_inline void stop_running(struct request_thread *t, struct task_struct *task, __u32 tid, bool preempted,
                                         __u64 now)
{
    struct request_syscall call;
    if (t->off_since_ns)
        catch_up(number_of(task), tid, now);
    else
        stolen_add(t, now);
    t->off_since_ns = now;
    t->woken_ns = 0;
    t->stack_place = 0;
    t->stack = 0;
    t->stack_end = REQUEST_STACK_NONE;
    t->runtime_ns = task_runtime(task);
    t->queued_ns = task_queued(task);
    t->wait_state = task_wait_state(task);
    t->preempted = preempted || t->wait_state == 0;
    t->throttled = t->preempted && task_throttled(task);
    if (t->preempted)
        return;
    syscall_of_task(task, &call);
    t->call_number = call.number;
    t->call_argument = call.argument[0];
    struct request_connection *c = current_of(t, tid);
    t->idle = is_idle(c, t, &call);
    if (t->idle)
        turn_away(t, tid, now);
    else if (c && c->dirty)
        publish(t->connection, now, false);
}

static __always_inline void run_again(struct request_thread *t, struct task_struct *task, __u32 tid,
                                      enum absence_end end, __u64 now)
{
    __u64 since = t->off_since_ns, woken = t->woken_ns;
    stolen_begin(t, now);
    if (!since)
        return;
    if (t->preempted)
        woken = since;
    else if (woken < since || woken > now)
        woken = now;
    add_absence(t, task, tid, end, woken - since, now - woken);
}

/* The switch to it was not traced (see catch_up), but it is known just after. */
__noinline int run_on(__u64 task_address, __u32 tid, __u64 now)
{
    struct request_thread *t = thread_find(tid);
    if (t)
        run_again(t, (struct task_struct *)task_address, tid, ABSENCE_RETURNED, now);
    return 0;
}
