/* Finds the request that a task of an event loop (asyncio, uvloop) works for: the task sends the request's reply, or a
 * task that waits for it does. From RECORDER_TASK. The latter is known only from jobs that a thread finishes for both
 * tasks. Each function returns the request's socket; 0: not known. Pure: reads only the indexed window. */
#pragma once

#include "diagnose/flight/flight_index.h"

/* The request of the task that thread `tid` ran at `t_ns`, the time of a record that the thread made: of an operation
 * on a socket, or of waking another thread. */
uint64_t task_request_of_run(const struct flight_index *index, uint32_t tid, uint64_t t_ns);

/* The record that thread `tid` has finished a job for a task, if the thread has sent no message about anything else
 * between that record and `t_ns`. NULL: there is no such record. */
const struct recorder_record *task_job_find(const struct flight_index *index, uint32_t tid, uint64_t t_ns);

/* Returns the request of the task that a thread has finished a job for. `job`: a record of task_job_find. */
uint64_t task_request_of_job(const struct flight_index *index, const struct recorder_record *job);

/* Whether threads of process `pid` finished jobs in (from_ns, to_ns) for two tasks or more, each of which may work for
 * the request of `socket`: no task is known to work for another one. */
bool task_are_several_unknown(const struct flight_index *index, uint32_t pid, uint64_t socket, uint64_t from_ns,
                              uint64_t to_ns);

/* The request of a task that sent something on socket `cookie` before `t_ns`, after the previous read: a read at `t_ns`
 * returns the answer. The last task that has a known request. */
uint64_t task_request_of_question(const struct flight_index *index, uint64_t cookie, uint64_t t_ns);

/* The request of a task that sends something on socket `cookie` at `t_ns` or later, before the next read. The first
 * task that has a known request. */
uint64_t task_request_of_sends(const struct flight_index *index, uint64_t cookie, uint64_t t_ns);
