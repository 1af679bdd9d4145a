/* The critical path of one request: what its wall time was spent on, from the arrival of its first byte to the last
 * byte of its reply, over the threads and processes of this node. Pure: the same window and request give the same
 * path. The rules are in docs/why.md. */
#pragma once

#include "diagnose/path/path_segments.h"

struct flight_index;

struct critical_path_request {
    uint64_t socket;   /* cookie of the connection that it came in on */
    uint64_t start_ns; /* when its first byte arrived */
    uint64_t read_ns;  /* when the server read that; start_ns: the arrival is not known */
    uint64_t end_ns;   /* when the server sent the last byte of its reply */
    uint32_t tid;      /* the thread that served it last */
    bool is_shared;    /* its connection served others meanwhile: the socket's events may be theirs, and all segments
                          are inferred */
    bool schedules_itself; /* the program puts its work on threads by a scheduler of its own (Go): a thread's waits are
                              not the request's */
};

/* Fills `ret` with segments that cover [start, end] exactly. Clear it with path_segments_clear, also on failure.
 * `index` may be of a longer window than the request.
 * -ENODATA: the window has nothing of this request, or it took no time; -ENOMEM. */
int critical_path_find(const struct flight_index *index, const struct critical_path_request *request,
                       struct path_segments *ret);
