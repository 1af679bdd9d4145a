/* Which tasks are monitored. Plain data. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TASK_FILTER_MAX 64 /* of each kind */

/* A task must satisfy each kind of filter that has an entry. */
struct task_filter {
    uint32_t pids[TASK_FILTER_MAX];
    size_t pid_count; /* their descendants are monitored, too */
    uint64_t cgroup_ids[TASK_FILTER_MAX];
    size_t cgroup_count;
    char commands[TASK_FILTER_MAX][16];
    size_t command_count;
    uint32_t users[TASK_FILTER_MAX]; /* effective user IDs, as seen in the initial user namespace */
    size_t user_count;
    bool skip_self; /* exclude this process */
};
