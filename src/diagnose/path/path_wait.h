/* Classifies one wait of a thread: its object, by the system call, and the event that ended it, by the wake-up. */
#pragma once

#include "diagnose/flight/flight_index.h"
#include "diagnose/path/path_segments.h"

#define PATH_WAKE_UP_NS 50000 /* from an arrival to the wake-up of the thread that waits for it, at most */

enum wait_source {
    WAIT_KNOWN,           /* the segment says what for */
    WAIT_ENDED_BY_THREAD, /* it waited for the thread that woke it */
};

/* Sets kind, reason, owner and is_inferred of `segment`; the caller has set its syscall and object from the wait.
 * `left` is the thread's switch to sleep, `woken` its wake-up; NULL: not known. */
enum wait_source path_wait_source(const struct recorder_record *left, const struct recorder_record *woken,
                                  struct path_segment *segment);

/* For a wait of a read or write that turned out to be on a socket. If a thread of the kernel ended it, and nothing else
 * was known of it, a packet did: ksoftirqd processes those that arrive. Then sets the segment as path_wait_source does.
 */
void path_wait_set_arrival(const struct recorder_record *left, const struct recorder_record *woken,
                           struct path_segment *segment);

/* Whether the thread waited for any event (epoll and its kin), as event loops and idle workers do. */
bool path_wait_is_for_events(const struct recorder_record *left);
/* Whether it waited for a lock or another thread: a futex, a lock of a file, a semaphore. */
bool path_wait_is_for_lock(const struct recorder_record *left);

/* Whether the system call sends, or receives: on a socket, or not. */
bool path_wait_is_send(int number);
bool path_wait_is_receive(int number);

/* Whether this wake-up is a signal that a thread sent, as databases do when one process releases what another one
 * needs.
 */
bool path_wait_is_signal(const struct recorder_record *woken);
/* Whether this wake-up is the creation of a thread. */
bool path_wait_is_creation(const struct recorder_record *woken);

/* The segment of a runnable thread, as `span` has it. */
struct path_segment path_run_queue_segment(const struct flight_list *thread, const struct thread_span *span);
