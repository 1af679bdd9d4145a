/* Thread states from /proc, so that a test waits for a thread to be blocked, off its CPU, and not for a time. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Waits until the thread is blocked in the system call of this number. */
void threads_await_blocked(pid_t tid, long number);
/* Waits until one thread of the process is, and returns it. */
pid_t threads_await_one_blocked(pid_t pid, long number);
/* Waits until all threads of the process are blocked. */
void threads_await_all_blocked(pid_t pid);
/* Waits until the thread is stopped by a signal. */
void threads_await_stopped(pid_t tid);

/* How often the thread has left a CPU. */
uint64_t threads_switches(pid_t tid);
