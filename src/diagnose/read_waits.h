/* Which waits of threads were for reads of files by other threads, as where data loaders do not keep up with the thread
 * that uses the data. Sums over windows of the flight recorder.
 *
 * A wait is followed backwards from its wake-up: what the waker did since the wait began counts, and where the waker
 * slept itself, what the thread did that woke it, and so on. Time in which the thread at hand slept for a read (or to
 * open or look up a file) is a wait for that read; its CPU time, run queue, locks, timers and network are not. */
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
    uint64_t inferred_ns;  /* of these, by wake-ups over TCP, of which only the interrupted thread is known */
    uint64_t unknown_ns;   /* it slept, and what it waited for is not known */
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

/* Adds what threads of processes selected by `is_selected` did in (from, to], and their waits that ended then, which
 * may have begun before. Nothing is added for times from which the window of `index` is not complete; such parts of
 * waits are unknown. What does not fit the tables, for lack of memory or of room for 65,536 entries each, is left out.
 */
void read_waits_add(struct read_waits *w, const struct flight_index *index, uint64_t from_ns, uint64_t to_ns,
                    bool (*is_selected)(void *context, uint32_t pid), void *context);

/* In the order in which they were first added; valid until the next call of read_waits_add. */
const struct read_waits_thread *read_waits_threads(const struct read_waits *w, size_t *ret_count);
const struct read_waits_pair *read_waits_pairs(const struct read_waits *w, size_t *ret_count);
/* Without those that are not known. `*ret_is_complete`: none was left out. */
const struct read_waits_file *read_waits_files(const struct read_waits *w, size_t *ret_count, bool *ret_is_complete);
/* How long the selected threads were observed, of wall time. */
uint64_t read_waits_observed_ns(const struct read_waits *w);
