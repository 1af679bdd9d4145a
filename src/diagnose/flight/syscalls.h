/* System calls by number: their names, and the reason of a wait where the number alone determines it. */
#pragma once

#include <stddef.h>

enum syscall_reason { SYSCALL_REASON_NONE, SYSCALL_REASON_LOCK, SYSCALL_REASON_SLEEP, SYSCALL_REASON_DISK };

enum syscall_reason syscall_reason(int number);

/* Writes "futex", "system call 999", or "page fault" for a negative number. Returns `out`. */
const char *syscall_name(int number, char *out, size_t size);
