/* See blocked_list.h. */
#include "sources/blocked/blocked_list.h"

#include <stdlib.h>

static int compare_tasks(const void *a, const void *b)
{
    const struct blocked_seen *one = a, *other = b;
    return one->tid < other->tid ? -1 : one->tid > other->tid;
}

uint64_t blocked_list_since(const struct blocked_list *before, const struct blocked_task *task, uint64_t now_ns)
{
    const struct blocked_seen key = {.tid = task->tid};
    const struct blocked_seen *seen = bsearch(&key, before->tasks, before->count, sizeof(key), compare_tasks);
    return seen && seen->switches == task->switches ? seen->since_ns : now_ns;
}

void blocked_list_add(struct blocked_list *list, const struct blocked_task *task, uint64_t since_ns)
{
    if (list->count < BLOCKED_MAX_TASKS)
        list->tasks[list->count++] = (struct blocked_seen){task->tid, task->switches, since_ns};
}

void blocked_list_sort(struct blocked_list *list)
{
    qsort(list->tasks, list->count, sizeof(list->tasks[0]), compare_tasks);
}
