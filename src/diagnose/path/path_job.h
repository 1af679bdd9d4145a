/* Jobs that threads of a pool do for the tasks of an event loop: where the walk goes from the task to its last job, to
 * the thread's job before that, and back to the task. Private to critical_path.c. */
#pragma once

#include "diagnose/path/path_walk.h"

/* Finds the job that the request's task waited for, before the thread that replies worked for the request again. Sets
 * `finished`. */
void path_job_find(struct path_walk *w);
/* Whether the request was ready from the end of job `finished` until `t_ns`, and waited for the event loop only. */
bool path_job_is_ready(const struct path_walk *w, uint64_t t_ns);
/* Goes on in the thread of `finished`. Sets `handed`. */
void path_job_go_to_finished(struct path_walk *w);
/* Goes on in the thread of `handed`. */
void path_job_go_to_handed(struct path_walk *w);

/* The current thread runs at w->t_ns and did the job that the walk follows. If it had finished an earlier job in
 * [floor_ns, w->t_ns): goes back to that moment, and if that job was another request's, to the task. `mark`: the last
 * mark of the thread in that time; NULL: it has no mark. Returns false if no such job is recorded. */
bool path_job_leave(struct path_walk *w, const struct flight_event *mark, uint64_t floor_ns);

/* Whether the event loop, which left its CPU at `left` and was woken at `end_ns`, seemingly by a timer, may have turned
 * to the request for another reason: until it sent something for the request, a thread may have finished a job of it
 * without a record. */
bool path_job_may_end_wait(const struct path_walk *w, const struct recorder_record *left, uint64_t end_ns);
