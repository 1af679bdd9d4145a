/* System calls by number: their names, and those whose number alone tells why a thread sleeps in them. */
#pragma once

#include <stddef.h>

enum syscall_reason { SYSCALL_REASON_NONE, SYSCALL_REASON_LOCK, SYSCALL_REASON_SLEEP, SYSCALL_REASON_DISK };

enum syscall_reason syscall_reason(int number);

/* "futex", "system call 999", "page fault" for a negative number. Returns `out`. */
const char *syscall_name(int number, char *out, size_t size);
