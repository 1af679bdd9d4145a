/* Which processes are still to be looked at for their native probes (usdt_providers.h), and when: those
 * that were told of, in order, and all there are by a walk through /proc. A turn takes so long and no longer;
 * what could not be read is tried again a few times, later each time. Bounded: where too many were told of, a
 * walk finds them. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct usdt_scan;

struct usdt_scan_options {
    void *context;
    /* 0: done. -EAGAIN: not all of it in the time there was (CLOCK_MONOTONIC). Any other error: something
     * could not be read now. */
    int (*look)(void *context, uint32_t pid, uint64_t end_ns);
};

int usdt_scan_new(const struct usdt_scan_options *options, struct usdt_scan **ret);
void usdt_scan_free(struct usdt_scan *l);
DEFINE_FREEP(usdt_scan)

/* The process is new, or has changed. */
void usdt_scan_want(struct usdt_scan *l, uint32_t pid);
/* So may all be. A walk that is under way goes on to its end before the next one begins. */
void usdt_scan_want_all(struct usdt_scan *l);

/* Looks for about so long, but at one process at least. */
void usdt_scan_turn(struct usdt_scan *l, uint64_t budget_ns);
/* The same, with what time it is said. */
void usdt_scan_turn_at(struct usdt_scan *l, uint64_t now_ns, uint64_t budget_ns);

struct usdt_scan_stats {
    size_t waiting;    /* processes */
    uint64_t unread;   /* looks in which something could not be read */
    uint64_t given_up; /* processes for which it was tried often enough */
    uint64_t walks;    /* that came to their end */
};
void usdt_scan_stats(const struct usdt_scan *l, struct usdt_scan_stats *ret);
