/* The time in which a request was ready, and its thread had not turned to it yet: what that thread did instead. Private
 * to the walk. */
#pragma once

#include "diagnose/path_walk.h"

/* Accounts [from, w->t) by what the thread did although the request was ready, and goes back to `from`. `busy` is the
 * kind: what it ran was for others, and what it waited for is named. At w->t it turned to the request; `reads`: by
 * reading something, so that some of what it ran was on the way there. */
void path_ready_add(struct path_walk *w, uint64_t from_ns, enum request_part_kind busy, bool reads, const char *reason);
