/* Steps of the walk through the waits of the request's task, in a program that schedules tasks on its threads itself.
 * Private to critical_path.c. */
#pragma once

#include "diagnose/path/path_walk.h"

/* At the start of the walk: finds the request's task. `reply`: the record of the send of its last byte; NULL. */
void path_task_start(struct path_walk *w, const struct recorder_record *reply);

/* The task that the walk follows was last seen waiting before w->t_ns. Goes on at the origin of the awaited event; or
 * adds the wait, and goes back to the thread that the task had left. `left_ns`: when the current thread began to
 * wait, if it did until w->t_ns; `waker`: the thread that ended its wait; 0: it did not wait, no thread. Returns false
 * if the task was not seen waiting, and the thread had not run it before it waited. */
bool path_task_follow(struct path_walk *w, uint64_t left_ns, uint32_t waker);

/* The task was last seen running after the last work on the request's socket, and no wait of it is recorded since: goes
 * on where it ran; the time after that is unattributed. Returns false otherwise. */
bool path_task_go_to_last_run(struct path_walk *w);

/* The current thread, which runs at w->t, ran another task in [from, w->t): the same since then. False: it did not, or
 * the task that the walk follows was not seen waiting. */
bool path_task_leave(struct path_walk *w, uint64_t from_ns);

/* The walk has come to the time when another task began to wait for the task that it follows: goes on with the waiting
 * task. */
void path_task_return(struct path_walk *w);
