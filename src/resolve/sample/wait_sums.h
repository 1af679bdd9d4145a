/* Waits that are alike, added up before they are named: who waits in the same place thousands of times a second is
 * named once. A wait's stack came ahead of it, in a record of its own, and is kept while its thread may wait there
 * again. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/offcpu.h"

#include <stddef.h>
#include <stdint.h>

struct wait_sum {
    const struct off_cpu_wait *wait; /* one of them; they differ in their times only */
    const struct cpu_sample *stack;  /* NULL: there is none, or none any more */
    const struct cpu_sample *waker;  /* who ended them; NULL: likewise */
    uint64_t waits, waited_ns;       /* until the thread was ready to run */
    uint64_t queued, queued_ns;      /* ready to run, without a CPU */
};

struct wait_sums;

/* `take` is called, from within the calls below, for sums that are complete; what it is given holds until it returns.
 * `max_bytes`: of stacks. */
int wait_sums_new(size_t max_bytes, void (*take)(void *context, const struct wait_sum *sum), void *context,
                  struct wait_sums **ret);
void wait_sums_free(struct wait_sums *s);
DEFINE_FREEP(wait_sums)

/* Keeps a copy of the stack, which is the thread's from now on; of one that was kept, and has the same time, more may
 * come later (the user's part). -ENOSPC, -ENOMEM: waits there will be without it, or with the less that was kept. */
int wait_sums_stack(struct wait_sums *s, const struct cpu_sample *record);
/* The same of who woke a thread, which the record names. */
int wait_sums_waker(struct wait_sums *s, const struct cpu_sample *record);
/* Of a wait that was told while it went on (OFF_CPU_SO_FAR) only the rest is added, as a wait of its own. */
void wait_sums_add(struct wait_sums *s, const struct off_cpu_wait *record);

/* Hands on what was added up of a process, or was ended by it (0: of all). */
void wait_sums_flush(struct wait_sums *s, uint32_t pid);
/* The thread is gone; or all threads of `pid` (tid 0). What was added up is handed on. */
void wait_sums_forget(struct wait_sums *s, uint32_t pid, uint32_t tid);
