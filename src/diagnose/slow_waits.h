/* Finds long waits in system calls in the records of the flight recorder, read window after window. A wait begins when
 * a thread goes to sleep in a call, and ends when the thread is woken; the time until it then gets a CPU is not part of
 * it. The recorder has neither begin nor end of calls: the call has taken at least as long as the wait.
 *
 * Programs make many calls to wait for an event that may not come for hours: such a wait is not slow. Sleeps are
 * therefore told apart:
 * - An uninterruptible sleep is for the kernel's own work: a disk, a lock in the kernel, memory. It counts in every
 *   call, except in those that are made to wait (for locks, time, events, children, the end of the thread).
 * - An interruptible sleep is mostly for an event: in read, recv, poll, futex, nanosleep, accept, wait4 and others. It
 *   counts only in calls that wait for no event, about files by path or descriptor (open, stat, unlink, fsync), and in
 *   connect.
 * - Where a call waits for another thread by its meaning, the wake-up shows it: the open of a FIFO is ended by the
 *   open of its other end or by a signal, and clone with CLONE_VFORK by the child's exec or exit. Neither counts.
 * Stopped threads (signals, debuggers, freezers) do not count.
 *
 * Not thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "model/flight_window.h"

#include <stdbool.h>
#include <stdint.h>

struct slow_waits;

struct slow_wait {
    uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
    uint64_t file;             /* key (flight_recorder_file) of the file that the call is about; 0: not recorded */
    uint32_t tid, pid;
    int syscall;
    bool is_memory_stall; /* the kernel counts it as a stall for memory (PSI) */
};

typedef void slow_waits_take(void *context, const struct slow_wait *wait);

/* Waits of `threshold_ns` or longer are slow. The caller frees `*ret`. -ENOMEM. */
int slow_waits_new(uint64_t threshold_ns, struct slow_waits **ret);
void slow_waits_free(struct slow_waits *w);
DEFINE_FREEP(slow_waits)

/* Calls `take` for each slow wait that ends in the window. Waits that have not ended are kept for the next window,
 * which must begin where this one ends; if its beginning is missing (`from_ns` < complete_from_ns), they are forgotten:
 * they may have ended there. */
void slow_waits_follow(struct slow_waits *w, const struct flight_window *window, uint64_t from_ns,
                       slow_waits_take *take, void *context);

/* Forgets the waits that have not ended: the next window does not begin where the last one ended. */
void slow_waits_forget(struct slow_waits *w);

/* Waits that were not followed, because too many had not ended. */
uint64_t slow_waits_lost(const struct slow_waits *w);
