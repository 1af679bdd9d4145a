/* What a thread works on: how it begins a request, leaves it for others and goes on with it, and where the time in
 * between goes. Part of request.bpf.c. */
#pragma once

#include "probes/request/request_publish.bpf.h"
#include "probes/request/request_waits.bpf.h"

/* The request that `t` works on. The place of a connection that was closed may hold a new one, which another thread
 * serves: so its owner is asked too. */
static __always_inline struct request_connection *current_of(struct request_thread *t, __u32 tid)
{
    if (!t->connection)
        return NULL;
    struct request_connection *c = connection_find(t->connection);
    if (c && c->active && c->tid == tid && !c->parked_ns)
        return c;
    t->connection = 0;
    return NULL;
}

/* `t` leaves what it worked on: for other work, or to wait for some. */
static __always_inline void turn_away(struct request_thread *t, __u32 tid, __u64 now)
{
    struct request_connection *c = current_of(t, tid);
    if (!c)
        return;
    t->connection = 0;
    c->parked_ns = now;
    if (c->replied && c->dirty)
        publish(c->number, now, false);
}

/* Time since the request began that no wait or sum accounts for: what would come out as CPU time. */
static __always_inline __u64 unexplained(struct request_connection *c, __u64 now)
{
    struct request_record *r = &c->r;
    __u64 known = r->unread_ns + r->run_queue_ns + r->other_requests_ns + r->unattributed_ns + r->more_waits_ns +
                  c->tail_run_queue_ns + c->tail_other_requests_ns + c->tail_unattributed_ns + c->tail_more_waits_ns;
    for (int i = 0; i < REQUEST_WAITS; i++)
        if (i < r->wait_count)
            known += r->waits[i].duration_ns + c->tail_ns[i];
    return now - r->start_ns > known ? now - r->start_ns - known : 0;
}

/* `t` goes on with a request: time since it was left is what its thread did meanwhile. While the thread slept in its
 * event loop nothing had come in for the request yet; since it woke it was busy with others. */
static __always_inline void resume(struct request_thread *t, struct request_connection *c, __u32 tid,
                                   const struct request_wait_key *cause, __u64 now)
{
    turn_away(t, tid, now);
    t->connection = c->number;
    if (!c->parked_ns) {
        if (c->tid !=
            tid) { /* taken over while its thread may still do something for it: nothing is known from here on */
            c->tid = tid;
            c->r.flags |= REQUEST_HANDED_OVER;
            c->tail = true;
            c->tail_unattributed_ns += unexplained(c, now);
        }
        return;
    }
    __u64 parked = c->parked_ns;
    c->parked_ns = 0;
    c->tail = true;
    if (c->tid != tid) {
        c->tid = tid;
        c->r.flags |= REQUEST_HANDED_OVER;
        c->tail_unattributed_ns += now - parked;
        return;
    }
    if (t->idle_end_ns > parked) {
        __u64 idle = t->idle_end_ns - parked;
        __u64 run_queue = t->idle_run_queue_ns < idle ? t->idle_run_queue_ns : idle;
        c->tail_run_queue_ns += run_queue;
        if (idle > run_queue)
            add_wait(c, cause, NULL, idle - run_queue);
        c->tail_other_requests_ns += now - t->idle_end_ns;
    } else {
        c->tail_other_requests_ns += now - parked;
    }
}

/* `start`: its first byte arrived; `now`: it was read. */
static __always_inline void begin(struct request_thread *t, struct request_connection *c, __u64 pid_tgid, __s32 fd,
                                  __u64 start, __u64 now)
{
    struct request_record *r = &c->r;
    if (request_name_pid(t->process) !=
        pid_tgid >> 32) /* of a process whose thread left its number behind as it called exec() */
        t->process = current_process(pid_tgid >> 32);
    c->process = t->process;
    r->h.pid = pid_tgid >> 32;
    r->h.tid = c->tid = (__u32)pid_tgid;
    r->id = now ^ pid_tgid << 40;
    r->start_ns = start;
    r->unread_ns = now - start;
    r->duration_ns = 0;
    r->bytes_in = r->bytes_out = 0;
    r->run_queue_ns = r->throttled_ns = r->other_requests_ns = r->unattributed_ns = r->more_waits_ns = 0;
    r->link.trace_id_high = r->link.trace_id_low = r->link.span_id = 0;
    r->status = 0;
    r->weight = 0;
    r->flags = 0;
    r->wait_count = 0;
    c->parked_ns = 0;
    c->runtime_start_ns = current_runtime();
    c->stolen_start_ns = current_stolen(t, now);
    if (c->tail)
        clear_tail(c);
    c->recorded_ns = c->counted_ns = 0;
    c->late_wait = 0;
    c->has_stacks = false;
    c->fd = fd;
    c->active = true;
    c->replied = c->partial = c->dirty = c->counted = c->tail = c->blocked = c->closing = false;
    c->head_bytes = 0;
    t->connection = c->number;
}
