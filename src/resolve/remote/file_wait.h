/* Waits for a reply of the file helper (file_helper.h). The wait ends after one second for a file system that does
 * not respond. It is longer for a helper that gets no CPU time, because that says nothing about the file. The state
 * of the helper's thread (/proc/TID/status) distinguishes the two cases and touches no file system. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define FILE_WAIT_MAX_MS 5000 /* limit where the caller's turn does not end before (base/turn_time.h) */

/* Waits until `socket` is readable. `tid` is the helper thread that serves the request; 0: no thread has accepted it
 * yet, which can only be for lack of CPU time. Returns 0; -ETIMEDOUT when the thread has slept for one second;
 * -EBUSY when `max_ms` have passed, or the time of the turn was interrupted, and it has not. */
int file_wait(int socket, pid_t tid, unsigned max_ms);

/* True when the thread has had CPU time and is now sleeping. */
bool file_wait_sleeps(pid_t tid);
