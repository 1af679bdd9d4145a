/* Publishes requests whose connection says nothing any more: a reply has no mark at its end, and the next request may
 * never come. User space runs the program some times a second. Part of request.bpf.c.
 *
 * A connection that was idle for FLUSH_NS may be published here, and at the same time be used on another CPU. So the
 * programs that use it hold it, if it was idle for nearly as long. */
#pragma once

#include "probes/request/request_publish.bpf.h"

#define FLUSH_NS   20000000ULL
#define HOLD_NS    15000000ULL
#define HOLD_TRIES 64 /* a connection is published in less time */

/* Set at any time: no more traffic comes, so the requests that are there are published. */
volatile bool flushes_all = false;

/* The connection has something to publish, and was idle for so long. */
static __always_inline bool is_idle(const struct request_connection *c, __u64 now, __u64 ns)
{
    return c->dirty && now > last_sent_ns(c) + ns;
}

/* Waits until the claim is free, and takes it. Returns the claim; 0: it was not free in time. A global function: the
 * verifier follows its loop once. */
__noinline __u64 claim_in_time(__u64 claim)
{
    for (int i = 0; i < HOLD_TRIES; i++)
        if (table_claim(claim))
            return claim;
    return 0;
}

/* Returns what connection_release takes. */
static __always_inline __u64 connection_hold(const struct request_connection *c, __u64 now)
{
    return is_idle(c, now, HOLD_NS) ? claim_in_time(REQUEST_CLAIM_PUBLISH | c->number) : 0;
}

static __always_inline void connection_release(__u64 held)
{
    if (held)
        table_release(held);
}

/* The connections of one set. A global function: verified once, and not for each set. */
__noinline int flush_set(__u32 set, __u64 now)
{
    const __u64 idle_ns = flushes_all ? 0 : FLUSH_NS;
    set &= REQUEST_CONNECTIONS_MAX / 8 - 1;
    for (__u32 way = 0; way < 8; way++) {
        if (!connection_names[set][way])
            continue;
        struct request_connection *c = connection_find(set * 8 + way + 1);
        if (!c || !is_idle(c, now, idle_ns) || !table_claim(REQUEST_CLAIM_PUBLISH | c->number))
            continue;
        if (is_idle(c, now, idle_ns))
            publish(c->number, now, false);
        table_release(REQUEST_CLAIM_PUBLISH | c->number);
    }
    return 0;
}
