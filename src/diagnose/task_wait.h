/* Tasks that a program schedules on its threads itself (Go's goroutines, asyncio's tasks): which one served a request,
 * and what it last waited for. From RECORDER_TASK, which is written only where the recorder looked: a wait may be
 * missing, and one that is there may have ended, and another one begun, unseen. Pure: reads only the indexed window. */
#pragma once

#include "diagnose/flight_index.h"
#include "diagnose/path_segments.h"

/* The task that read the request of `socket`, which began at `begin`: its id. 0: not recorded. */
uint64_t task_of_request(const struct flight_index *index, uint64_t socket, uint64_t begin_ns);

/* The task that ran when this record of a socket was made. 0: not recorded. */
uint64_t task_of_operation(const struct flight_index *index, const struct recorder_record *operation);

/* The record of the thread that last finished something for task `id` of process `pid` in (after, before). NULL: none.
 */
const struct recorder_record *task_finished_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                                 uint64_t after_ns, uint64_t before_ns);

/* Whether any thread of process `pid` finished something for a task in (after, before). */
bool task_is_any_finished(const struct flight_index *index, uint32_t pid, uint64_t after_ns, uint64_t before_ns);

/* The last record in [after, before) that task `id` of process `pid` runs. NULL: none. */
const struct recorder_record *task_run_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                            uint64_t after_ns, uint64_t before_ns);

/* The wait in which task `id` of process `pid` was last seen before `t`, since `begin`: the first record of it. NULL:
 * none, or it was seen to run after it. */
const struct recorder_record *task_wait_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                             uint64_t begin_ns, uint64_t t_ns);

/* Whether there is any record of task `id` of process `pid` in [begin, t). */
bool task_was_seen(const struct flight_index *index, uint32_t pid, uint64_t id, uint64_t begin_ns, uint64_t t_ns);

/* Where task `id` of process `pid` was when thread `tid` sent something at `t`: it sent that itself, by a record of
 * both at or just after `t`; or by its last record in [begin, t] or, if that is its next wait, just after it. NULL:
 * there is none. */
const struct recorder_record *task_place_find(const struct flight_index *index, uint32_t pid, uint64_t id, uint32_t tid,
                                              uint64_t begin_ns, uint64_t t_ns);

/* The last record in (from, t) by which thread `tid` runs task `id`, and that by which it runs any other in [from, t),
 * if that is later. NULL: there is none, or the other one's is later. */
const struct recorder_record *task_own_find(const struct flight_index *index, uint32_t tid, uint64_t id,
                                            uint64_t from_ns, uint64_t t_ns);
const struct recorder_record *task_other_find(const struct flight_index *index, uint32_t tid, uint64_t id,
                                              uint64_t from_ns, uint64_t t_ns);

/* Whether task `id` of process `pid` received or sent on a socket on which requests are served, other than `except`, in
 * [from, to). */
bool task_serves(const struct flight_index *index, uint32_t pid, uint64_t id, uint64_t except, uint64_t from_ns,
                 uint64_t to_ns);

/* The read of an answer by which other tasks of process `pid`, none of which serves a request on a socket other than
 * `except`, may have ended this wait: the last one until `t`, by which time the task ran again, if close to it, and of
 * what was asked since `begin`, at about the time when the task began to wait. NULL: there is none. */
const struct recorder_record *task_answer_find(const struct flight_index *index, uint32_t pid, uint64_t except,
                                               const struct recorder_record *wait, uint64_t begin_ns, uint64_t t_ns);

/* Sets kind, owner, is_inferred and reason of `segment`, which is such a wait. */
void task_wait_explain(const struct recorder_record *wait, struct path_segment *segment);
