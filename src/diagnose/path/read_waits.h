/* Finds the waits of threads for reads of files by other threads: for example, data loaders do not keep up with the
 * thread that uses the data. Sums over windows of the flight recorder.
 *
 * A wait is followed backwards from its wake-up: the waker's activity since the wait began counts. Where the waker
 * itself slept, the activity of the thread that woke it counts, and so on. Time that the thread at hand slept for a
 * read (or to open or look up a file) is a wait for that read; its CPU time, run queue, locks, timers and network are
 * not. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flight_index;

/* A thread of a selected process. Durations. */
struct read_waits_thread {
    uint32_t tid, pid;
    uint64_t ran_ns;
    uint64_t for_reads_ns; /* it slept for reads of other threads */
    uint64_t inferred_ns;  /* part of for_reads_ns, by wake-ups over TCP: only the interrupted thread is known */
    uint64_t unknown_ns;   /* it slept; the object of the wait is not known */
};

/* Of the waits of thread `tid`, those for reads by thread `reader`. */
struct read_waits_pair {
    uint32_t tid, pid;
    uint32_t reader, reader_pid; /* reader_pid 0: not known */
    uint64_t ns;
};

/* Of the waits of thread `tid`, those for reads of a file. */
struct read_waits_file {
    uint64_t file; /* its key (flight_recorder_file) */
    uint32_t tid, pid;
    uint32_t reader_pid; /* of the process that read it last */
    uint64_t ns;
};

struct read_waits;

/* -ENOMEM. The caller frees `*ret`. */
int read_waits_new(struct read_waits **ret);
void read_waits_free(struct read_waits *w);
DEFINE_FREEP(read_waits)

/* Adds the activity in (from_ns, to_ns] of threads of processes selected by `is_selected`, and their waits that ended
 * then. These waits may have begun before. Adds nothing for times when the window of `index` is incomplete; such parts
 * of waits are unknown. Each table holds at most 65,536 entries; entries without room or memory are left out. */
void read_waits_add(struct read_waits *w, const struct flight_index *index, uint64_t from_ns, uint64_t to_ns,
                    bool (*is_selected)(void *context, uint32_t pid), void *context);

/* In the order of their first addition; valid until the next call of read_waits_add. */
const struct read_waits_thread *read_waits_threads(const struct read_waits *w, size_t *ret_count);
const struct read_waits_pair *read_waits_pairs(const struct read_waits *w, size_t *ret_count);
/* Waits for files that are not known are not included. `*ret_is_complete`: no entry was left out. */
const struct read_waits_file *read_waits_files(const struct read_waits *w, size_t *ret_count, bool *ret_is_complete);
/* How long the selected threads were observed, of wall time. */
uint64_t read_waits_observed_ns(const struct read_waits *w);
