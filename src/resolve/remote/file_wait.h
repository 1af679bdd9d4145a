/* Waiting for an answer of the helper (file_helper.h): no longer than a second for a file system that does
 * not answer, but longer for a helper that gets no CPU time, which says nothing of the file. Its thread's
 * state tells the two apart, and asks no file system. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define FILE_WAIT_MAX_MS 10000 /* where nobody waits for who asks */

/* Until there is something to receive. `tid`: of the thread that is to answer; 0: none has taken the question
 * up, which can only be for want of CPU time. -ETIMEDOUT: the thread has slept for a second; -EBUSY: `max_ms`
 * have passed, and it has not. */
int file_wait(int socket, pid_t tid, unsigned max_ms);

/* Whether the thread has had CPU time, and waits for something else. */
bool file_wait_sleeps(pid_t tid);
