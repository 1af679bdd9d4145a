/* Steps of the walk where a thread that waits for events is woken by another thread. Private to critical_path.c. */
#pragma once

#include "diagnose/path/path_walk.h"

/* Goes on in the thread that `woken` shows as the waker of the current one, if that is the event loop that ran the
 * request's task when it replied, and no record shows the task that woke the thread. The event loop may have given the
 * thread work for the request, as gRPC's does. Returns false if the waker is another thread. */
bool path_loop_go_to_waker(struct path_walk *w, const struct recorder_record *woken);

/* Thread `tid` woke the current one at `end_ns`, after work for this request or for another one. Takes its last piece
 * of work for this request's if no other piece is known to be. Before that, since `from_ns`, the request waited for
 * this thread. If the event loop of the request had given it that piece: goes on in the event loop, and returns true.
 */
bool path_loop_add_worker(struct path_walk *w, uint32_t tid, uint64_t from_ns, uint64_t end_ns);

/* A thread that does not work for the request woke the event loop. Goes on in the thread that got the request last,
 * from the time when that thread was done with it. False: no such thread is known, or threads finish jobs that are not
 * recorded. */
bool path_loop_go_to_last_hand(struct path_walk *w, uint64_t end_ns);
