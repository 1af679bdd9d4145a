/* Waiting for an answer of the helper (file_helper.h): no longer than a second for a file system that does
 * not answer, but longer for a helper that gets no CPU time, which says nothing of the file. Its thread's
 * state tells the two apart, and asks no file system. */
#pragma once

#include <sys/types.h>

#define FILE_WAIT_MAX_MS 10000

/* Until there is something to receive. `tid`: of the thread that is to answer; 0: none has taken the question
 * up, which can only be for want of CPU time. -ETIMEDOUT: the thread has slept for a second, or
 * FILE_WAIT_MAX_MS have passed. */
int file_wait(int socket, pid_t tid);
