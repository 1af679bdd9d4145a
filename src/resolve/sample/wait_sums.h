/* Aggregates equal off-CPU waits of a thread before their stacks are resolved, because a thread may wait in the same
 * place thousands of times a second. The stack of a wait arrives before it in a record of its own, and is kept while
 * the thread may wait there again. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/offcpu.h"

#include <stddef.h>
#include <stdint.h>

struct wait_sum {
    const struct off_cpu_wait *wait;  /* one of the waits; they differ only in their times */
    const struct stack_record *stack; /* NULL: none, or no longer stored */
    const struct stack_record *waker; /* the stack of the waker; NULL: likewise */
    uint64_t waits, waited_ns;        /* number and duration of waits, until the thread became runnable */
    uint64_t queued,
        queued_ns; /* number and duration of run-queue waits (runnable without a CPU); includes preemptions */
};

struct wait_sums;

/* `take` receives complete sums, during the calls below; its argument is valid until it returns. `max_bytes` bounds the
 * stored records. The caller frees `*ret`, whose remaining sums are lost unless they are flushed first. -ENOMEM. */
int wait_sums_new(size_t max_bytes, void (*take)(void *context, const struct wait_sum *sum), void *context,
                  struct wait_sums **ret);
void wait_sums_free(struct wait_sums *s);
DEFINE_FREEP(wait_sums)

/* Stores a copy of the stack record, which applies to the thread's following waits. A record with the same time as the
 * stored one replaces it with a more complete stack (the user part). -ENOSPC, -ENOMEM: the thread's waits have no
 * stack, or keep the less complete one. */
int wait_sums_stack(struct wait_sums *s, const struct stack_record *record);
/* Like wait_sums_stack, for the stack of a waker; the record names the thread that it woke. */
int wait_sums_waker(struct wait_sums *s, const struct stack_record *record);
/* Adds a wait. Of a wait that was already reported while it lasted (OFF_CPU_SO_FAR), only the remainder is added, as a
 * wait of its own. */
void wait_sums_add(struct wait_sums *s, const struct off_cpu_wait *record);

/* Emits the sums of a process, and those whose waker belongs to it. */
void wait_sums_flush(struct wait_sums *s, uint32_t pid);
/* Emits all sums, as far as the turn has time (base/turn_time.h), but those of at least one bucket of the hash table;
 * the next call goes on with the others, to which waits may be added meanwhile. */
void wait_sums_flush_all(struct wait_sums *s);
/* The number of waits in the sums that were not emitted yet. */
uint64_t wait_sums_pending(const struct wait_sums *s);
/* Emits the sums of an exited thread (tid 0: of all threads of `pid`) and removes it. */
void wait_sums_forget(struct wait_sums *s, uint32_t pid, uint32_t tid);
