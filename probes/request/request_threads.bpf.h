/* Whether a thread was with one request alone: its traced work meanwhile (thread_link.bpf.h) was for this request.
 * Only with links. Part of request.bpf.c.
 *
 * A thread was not, if another request that it had read was unanswered when it read this one, if it read or replied on
 * another connection until it replied, or if another thread replied. */
#pragma once

#include "probes/context/answered_sockets.bpf.h"
#include "probes/context/thread_link.bpf.h"
#include "probes/request/request_state.bpf.h"

#define THREADS_MAX 4096

/* At the low bits of its ID: another thread may take the place. */
struct request_thread {
    __u32 tid;
    __u32 unanswered;   /* requests that it has read */
    __u64 connection;   /* the last one that it read or replied on: its number, */
    __u64 connected_ns; /* since when */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, THREADS_MAX);
    __type(key, __u32);
    __type(value, struct request_thread);
} request_threads SEC(".maps");

static __always_inline struct request_thread *thread_place(__u32 tid)
{
    __u32 place = tid & (THREADS_MAX - 1);
    return bpf_map_lookup_elem(&request_threads, &place);
}

static __always_inline struct request_thread *thread_touch(struct request_connection *c, __u32 tid, __u64 now)
{
    struct request_thread *t = thread_place(tid);
    if (!t)
        return NULL;
    if (t->tid != tid)
        *t = (struct request_thread){.tid = tid};
    if (t->connection != c->number) {
        t->connection = c->number;
        t->connected_ns = now;
    }
    return t;
}

/* The thread begins to read a request. */
static __always_inline void thread_reads(struct request_connection *c, __u32 tid, __u64 now)
{
    struct request_thread *t = links ? thread_touch(c, tid, now) : NULL;
    if (!t)
        return;
    c->shared = t->unanswered > 0;
    c->unanswered = true;
    t->unanswered++;
}

/* The request has a reply, or never gets one. */
static __always_inline void thread_answered(struct request_connection *c)
{
    struct request_thread *t = links && c->unanswered ? thread_place(c->r.h.tid) : NULL;
    c->unanswered = false;
    if (t && t->tid == c->r.h.tid && t->unanswered)
        t->unanswered--;
}

/* Thread `tid` replies. */
static __always_inline void thread_replies(struct request_connection *c, __u32 tid, __u64 now)
{
    const struct request_thread *t = links ? thread_touch(c, tid, now) : NULL;
    if (t && (tid != c->r.h.tid || t->connected_ns > c->r.start_ns + c->r.unread_ns))
        c->shared = true;
}
