/* Tasks that a program schedules on its threads itself (Go's goroutines, asyncio's tasks): the task that served a
 * request, and its last wait. Read from RECORDER_TASK, which is written only where the recorder looked: a wait may be
 * missing. A recorded wait may have ended, and another one begun, unseen. Pure: reads only the indexed window. */
#pragma once

#include "diagnose/flight/flight_index.h"
#include "diagnose/path/path_segments.h"

/* The task that read the request of `socket`, which began at `begin`: its id. 0: not recorded. */
uint64_t task_of_request(const struct flight_index *index, uint64_t socket, uint64_t begin_ns);

/* The task that ran when this record of a socket was made, and its record. 0, NULL: not recorded. */
uint64_t task_of_operation(const struct flight_index *index, const struct recorder_record *operation);
const struct recorder_record *task_record_of_operation(const struct flight_index *index,
                                                       const struct recorder_record *operation);

/* The record of the thread that last finished something for task `id` of process `pid` in (after, before). NULL: none.
 */
const struct recorder_record *task_finished_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                                 uint64_t after_ns, uint64_t before_ns);

/* Returns the switch record of the thread that last waited for work again, in (after_ns, before_ns), after it had done
 * a job for task `id` of process `pid` (by RECORDER_TASK_WORKS): the job ended shortly before, without a record. NULL:
 * no such record. */
const struct recorder_record *task_done_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                             uint64_t after_ns, uint64_t before_ns);

/* Whether any thread of process `pid` finished something for a task in (after, before). */
bool task_is_any_finished(const struct flight_index *index, uint32_t pid, uint64_t after_ns, uint64_t before_ns);

/* Returns the last record in [from_ns, to_ns) that thread `tid` finished a job; NULL if there is no such record. */
const struct recorder_record *task_job_before(const struct flight_index *index, uint32_t tid, uint64_t from_ns,
                                              uint64_t to_ns);

/* Returns the first record after `t_ns` that thread `tid` finished a job; NULL if there is no such record. */
const struct recorder_record *task_job_after(const struct flight_index *index, uint32_t tid, uint64_t t_ns);

/* Whether the job of this record of task_job_before was for task `id`, or for a task that `id` waits for. */
bool task_job_is_for(const struct flight_index *index, const struct recorder_record *job, uint64_t id);

/* Whether the records show, for a job that was given at `from_ns` or later, when its thread began it: the thread had
 * finished another one after `from_ns`, or had nothing to do then, or event loop `loop_tid` woke it since. */
bool task_job_is_bounded(const struct flight_index *index, const struct recorder_record *job, uint32_t loop_tid,
                         uint64_t from_ns);

/* Whether another thread of the process of event loop `loop` may have finished a job in [from_ns, to_ns) without a
 * record: threads of the process let the event loop know by write() (RECORDER_BY_WRITE), and this one ran then, after a
 * wait that ended at `begin_ns` or later. */
bool task_may_have_unseen_job(const struct flight_index *index, const struct flight_list *loop, uint64_t begin_ns,
                              uint64_t from_ns, uint64_t to_ns);

/* The last record in [after, before) that task `id` of process `pid` runs. NULL: none. */
const struct recorder_record *task_run_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                            uint64_t after_ns, uint64_t before_ns);

/* Returns the first record of the wait that task `id` of process `pid` was last seen in, before `t_ns` and since
 * `begin_ns`. NULL if there is no wait, or if the task was seen running after it. */
const struct recorder_record *task_wait_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                             uint64_t begin_ns, uint64_t t_ns);

/* Whether there is any record of task `id` of process `pid` in [begin, t). */
bool task_was_seen(const struct flight_index *index, uint32_t pid, uint64_t id, uint64_t begin_ns, uint64_t t_ns);

/* Returns the record that shows the place of task `id` of process `pid` when thread `tid` sent something at `t_ns`. If
 * the task itself sent it: the record of task and thread at or just after `t_ns`. Otherwise: the task's next record
 * just after `t_ns` if that is a wait, or else its last record in [begin_ns, t_ns]. NULL if there is no such record. */
const struct recorder_record *task_place_find(const struct flight_index *index, uint32_t pid, uint64_t id, uint32_t tid,
                                              uint64_t begin_ns, uint64_t t_ns);

/* Return the last record in (from_ns, t_ns) of thread `tid` running task `id`, and the last record in [from_ns, t_ns)
 * of `tid` running any other task. Each function returns NULL if it has no such record, or if the other function's
 * record is later. */
const struct recorder_record *task_own_find(const struct flight_index *index, uint32_t tid, uint64_t id,
                                            uint64_t from_ns, uint64_t t_ns);
const struct recorder_record *task_other_find(const struct flight_index *index, uint32_t tid, uint64_t id,
                                              uint64_t from_ns, uint64_t t_ns);

/* Whether task `id` of process `pid` received or sent, in [from_ns, to_ns), on a socket that serves requests, other
 * than `except`. */
bool task_serves(const struct flight_index *index, uint32_t pid, uint64_t id, uint64_t except, uint64_t from_ns,
                 uint64_t to_ns);

/* Returns the read of an answer that may have ended this wait: the last one until `t_ns`, if close to `t_ns`. By `t_ns`
 * the task ran again. Other tasks of process `pid` read the answer, and asked its question since `begin_ns`, at about
 * the time when the task began to wait. These tasks serve no request on a socket other than `except`. NULL if there is
 * no such read. */
const struct recorder_record *task_answer_find(const struct flight_index *index, uint32_t pid, uint64_t except,
                                               const struct recorder_record *wait, uint64_t begin_ns, uint64_t t_ns);

/* Returns the last wait until `t_ns`, as task_wait_find does, of the only task that task `id` of process `pid` had
 * created, that waited while `id` was in `wait`, and that was seen again when this wait ended, at `t_ns`: the wait may
 * have been for that task. NULL if there is no such task, or if there are several. */
const struct recorder_record *task_created_wait_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                                     const struct recorder_record *wait, uint64_t t_ns);

/* Sets kind, owner, is_inferred and reason of `segment`, which is such a wait. */
void task_wait_explain(const struct recorder_record *wait, struct path_segment *segment);
