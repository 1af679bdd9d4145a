/* The task that was created to serve one request of a connection that carries several: over HTTP/2, Go's servers read
 * frames in one goroutine, serve each stream in a goroutine of its own, and send in another one. From RECORDER_TASK.
 * Pure: reads only the indexed window. */
#pragma once

#include "diagnose/flight/flight_index.h"

/* Returns the id of the task of process `pid` that serves the request which began at `begin_ns` on `socket`: it was
 * first seen since then, was created by the task that read the request or by that task's creator, and serves no socket
 * itself. It was not created by the same statement as the task that read the request, or as one that sends on `socket`.
 * If there are several such tasks, it is the only one that was seen before the next receive on the socket. If several
 * were seen until then, it is the only one of these that was not seen waiting for I/O until the reply: the task that
 * reads the next request waits so. Returns 0 if no such task is known, and if the task that read the request also sends
 * `reply`, the record of its reply. */
uint64_t task_handler_find(const struct flight_index *index, uint32_t pid, uint64_t socket, uint64_t begin_ns,
                           const struct recorder_record *reply);
