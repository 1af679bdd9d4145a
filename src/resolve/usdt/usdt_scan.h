/* The queue of processes to scan for USDT probes (usdt_providers.h): those reported as new or changed, in order, and
 * all processes by a walk through /proc. A turn is limited in time. A process that could not be read is retried a
 * few times with growing pauses. Bounded: when the queue overflows, a walk finds the rest. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct usdt_scan;

struct usdt_scan_options {
    void *context;
    /* Scans one process. 0: done. -EAGAIN: not finished by `end_ns` (CLOCK_MONOTONIC). Any other error: something
     * could not be read at present. */
    int (*scan)(void *context, uint32_t pid, uint64_t end_ns);
};

/* Copies `options`. Nothing is queued at first. The caller frees `*ret`. -ENOMEM. */
int usdt_scan_new(const struct usdt_scan_options *options, struct usdt_scan **ret);
void usdt_scan_free(struct usdt_scan *l);
DEFINE_FREEP(usdt_scan)

/* Queues a process that is new or has changed. */
void usdt_scan_want(struct usdt_scan *l, uint32_t pid);
/* Requests a walk through all processes. A walk in progress is completed before the next one begins. */
void usdt_scan_want_all(struct usdt_scan *l);

/* Scans for about `budget_ns`, but one process at least. */
void usdt_scan_turn(struct usdt_scan *l, uint64_t budget_ns);
/* The same at a given time, for tests. */
void usdt_scan_turn_at(struct usdt_scan *l, uint64_t now_ns, uint64_t budget_ns);

struct usdt_scan_stats {
    size_t waiting;    /* queued processes */
    uint64_t unread;   /* scans with an unreadable file */
    uint64_t given_up; /* processes given up after the last retry */
    uint64_t walks;    /* completed walks */
};
void usdt_scan_stats(const struct usdt_scan *l, struct usdt_scan_stats *ret);
