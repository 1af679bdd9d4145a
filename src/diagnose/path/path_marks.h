/* Steps of the walk where the thread read something, or turned to the request from other work. They find the time since
 * when the request was ready, and the thread where the walk goes on. Private to critical_path.c. */
#pragma once

#include "diagnose/path/path_walk.h"

/* Until w->t the request was ready since `w->finished`. */
void path_mark_finished(struct path_walk *w);
/* The request was read at w->t: until then its bytes waited in the socket. */
void path_mark_read(struct path_walk *w);
/* The thread read something else from socket `cookie` at w->t_ns. The request had waited for this data. The thread's
 * next work for the request ended at `answer_ns`. */
void path_mark_consumed(struct path_walk *w, uint64_t cookie, uint64_t answer_ns);
/* Whether thread `tid` of an event loop's pool, when it let the loop know at `t_ns`, had finished a job of another
 * request: of a task that is known, or a job that it began before the request. */
bool path_mark_is_job_of_other(const struct path_walk *w, uint32_t tid, uint64_t t_ns);
/* Whether thread `tid` of the current thread's process, which then wakes an event loop, has read other requests only,
 * from when it was last woken until `t_ns`. */
bool path_mark_is_reader_of_other(const struct path_walk *w, uint32_t tid, uint64_t t_ns);
/* Whether all that was read from socket `cookie` at `t_ns` was for tasks of other requests. */
bool path_mark_is_for_other(const struct path_walk *w, uint64_t cookie, uint64_t t_ns);
/* This arrival made the request ready: the walk goes on at its sender. */
void path_mark_arrival(struct path_walk *w, const struct recorder_record *arrival);
/* The data that ended the current thread's wait for events, by the wake-up `woken`, was read only after w->t_ns:
 * threads of gRPC's library first wake another one, which waits for events in their place. Goes on at the sender of the
 * data. False: the thread then read nothing that had arrived at the wake-up, or data for other requests. */
bool path_mark_later_read(struct path_walk *w, const struct recorder_record *woken);
/* At w->t the thread turned from another request or, `is_end`, an earlier piece of work to this request. */
void path_mark_foreign(struct path_walk *w, bool is_end, uint64_t answer_ns);
