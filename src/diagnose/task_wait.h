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

/* The wait in which task `id` of process `pid` was last seen before `t`, since `begin`. NULL: none, or it was seen to
 * run after it. */
const struct recorder_record *task_wait_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                             uint64_t begin_ns, uint64_t t_ns);

/* Sets kind, owner, is_inferred and reason of `segment`, which is such a wait. */
void task_wait_explain(const struct recorder_record *wait, struct path_segment *segment);
