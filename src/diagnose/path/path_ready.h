/* Explains the delay of a ready request whose thread has not turned to it yet, by that thread's other activity. Private
 * to the walk. */
#pragma once

#include "diagnose/path/path_walk.h"

/* Explains the delay in [from_ns, w->t_ns): the request was ready, the thread did something else. Moves the walk back
 * to `from_ns`. `busy` is the kind of the time: the thread's work was for others, and the objects of its waits are
 * named. At w->t_ns the thread turned to the request; `reads`: by a read, so that part of its work was on the way to
 * that read. */
void path_ready_add(struct path_walk *w, uint64_t from_ns, enum request_part_kind busy, bool reads, const char *reason);
