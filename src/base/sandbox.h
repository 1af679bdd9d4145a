/* A sandbox for a process that parses untrusted files with a library that was not hardened for that. The process has
 * no privileges, cannot start programs, write to files or reach other processes or the network, and cannot open
 * files itself: its open calls are forwarded to the parent, which opens the file and passes it, or refuses. */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct sandbox_limits {
    uint64_t data_bytes;  /* on top of the process's present size; not limited in a program with a sanitizer */
    unsigned cpu_seconds; /* or SANDBOX_CPU_UNLIMITED: the parent limits it */
};
#define SANDBOX_CPU_UNLIMITED UINT_MAX

/* Enters the sandbox; called by the process itself once everything that it needs is loaded and open. The process
 * also ends with its parent, `parent_pid`. `*ret_listener` must be sent to the parent and closed; -1: the kernel
 * does not support it and every open fails. 0, or -errno: the process is not confined. */
int sandbox_enter(const struct sandbox_limits *limits, int parent_pid, int *ret_listener);

/* For the parent, when `listener` is readable: the next file to open. -EAGAIN: none. */
struct sandbox_open {
    uint64_t id;
    char path[PATH_MAX];
};
int sandbox_next_open(int listener, struct sandbox_open *ret);
/* Completes the open call. `fd` remains the caller's; < 0: the -errno that the call returns. */
void sandbox_answer_open(int listener, const struct sandbox_open *asked, int fd);
