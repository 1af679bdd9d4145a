/* Cgroups that tests make, and processes in them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Makes the directory of a cgroup, if it does not exist, and returns its ID; 0: it cannot be made here. */
uint64_t cgroup_make(const char *path);

/* Makes the cgroup `label` ("/name") of the memory controller, in either version, with a limit. Sets `ret_path` to its
 * directory and returns its ID; 0: it cannot be made here. */
uint64_t cgroup_make_limited(const char *label, uint64_t limit_bytes, char ret_path[256], bool *ret_is_v2);

/* Moves a process into the cgroup; 0: the caller. */
bool cgroup_enter(const char *path, pid_t pid);

/* Runs `work` in a child that is in the cgroup, and asserts that the child ends with status 0. */
void cgroup_run(const char *path, void (*work)(void));

/* Waits until the kernel has finished with the processes that ended in it. */
void cgroup_remove(const char *path);
