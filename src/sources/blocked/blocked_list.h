/* Compares the blocked tasks of a walk with the previous walk: a task that has not left its CPU in between has been
 * blocked all the time. Pure. */
#pragma once

#include <linux/types.h>

#include "probes/blocked.h"

#include <stddef.h>
#include <stdint.h>

struct blocked_seen {
    uint32_t tid;
    uint64_t switches; /* of one that has the same, nothing else can be seen: it has not run */
    uint64_t since_ns; /* of the first walk that found it so */
};

struct blocked_list {
    size_t count;
    struct blocked_seen tasks[BLOCKED_MAX_TASKS]; /* by `tid` */
};

/* When a task of the walk at `now_ns` was first found as blocked as it is now: `now_ns` if `before` lacks it. */
uint64_t blocked_list_since(const struct blocked_list *before, const struct blocked_task *task, uint64_t now_ns);

/* Adds a task; one beyond the list's room is left out, and is a new one in the next walk. */
void blocked_list_add(struct blocked_list *list, const struct blocked_task *task, uint64_t since_ns);

/* After the last addition, and before a comparison with it. */
void blocked_list_sort(struct blocked_list *list);
