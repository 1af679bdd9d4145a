/* Which processes are still to be looked at for their native probes (native_providers.h), and when: those
 * that were told of, in order, and all there are by a walk through /proc. A turn takes so long and no longer;
 * what could not be read is tried again a few times, later each time. Bounded: where too many were told of, a
 * walk finds them. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct native_looks;

struct native_looks_options {
    void *context;
    /* 0: done. -EAGAIN: not all of it in the time there was (CLOCK_MONOTONIC). Any other error: something
     * could not be read now. */
    int (*look)(void *context, uint32_t pid, uint64_t end_ns);
};

int native_looks_new(const struct native_looks_options *options, struct native_looks **ret);
void native_looks_free(struct native_looks *l);
DEFINE_FREEP(native_looks)

/* The process is new, or has changed. */
void native_looks_want(struct native_looks *l, uint32_t pid);
/* So may all be. A walk that is under way goes on to its end before the next one begins. */
void native_looks_want_all(struct native_looks *l);

/* Looks for about so long, but at one process at least. */
void native_looks_turn(struct native_looks *l, uint64_t budget_ns);
/* The same, with what time it is said. */
void native_looks_turn_at(struct native_looks *l, uint64_t now_ns, uint64_t budget_ns);

struct native_looks_figures {
    size_t waiting;    /* processes */
    uint64_t unread;   /* looks in which something could not be read */
    uint64_t given_up; /* processes for which it was tried often enough */
    uint64_t walks;    /* that came to their end */
};
void native_looks_figures(const struct native_looks *l, struct native_looks_figures *ret);
