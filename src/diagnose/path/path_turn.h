/* Finds the request that an event loop worked for: between the read of a request and the reply it may run tasks of
 * requests that it had read before. Uses RECORDER_TASK, which shows the task wherever the thread sends something, wakes
 * another one or leaves its CPU. Private to critical_path.c and path_marks.c. */
#pragma once

#include "diagnose/path/path_walk.h"

struct path_turn {
    enum request_owner owner; /* whose work the thread did just before: REQUEST_OWNER_SEVERAL: this request's, or that
                                 of one that it had read before */
    uint64_t from_ns;         /* since when: not before the record before it */
};

/* Finds what the walk's current thread worked on until `t_ns`, not before `floor_ns`. `owner` is REQUEST_OWNER_THIS
 * unless the records show something else. */
struct path_turn path_turn_find(struct path_walk *w, uint64_t floor_ns, uint64_t t_ns);

/* Extends `slice`, the last one of this request that is known by its socket, to when its task was last seen running
 * before w->t_ns. */
void path_turn_extend(const struct path_walk *w, struct work_slice *slice);
