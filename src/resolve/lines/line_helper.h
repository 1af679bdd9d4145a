/* The process that reads the DWARF of one file and reports the source lines of addresses. There is one process per
 * file, so that a file that crashes or subverts the reader affects only itself. It is forked on demand, and
 * sandboxed (base/sandbox.h) before it reads a byte. Its messages: line_answer.h, one packet each on its socket. */
#pragma once

#include "resolve/lines/dwarf_lines.h"

#include <stdint.h>
#include <sys/types.h>

struct line_helper {
    pid_t pid;
    int socket;   /* its messages; the first one carries the listener for files that it needs opened */
    int listener; /* -1: not received yet, or not supported */
};

/* Tests in a process of its own whether libdw can be loaded. 0; -ENOPKG: it cannot. */
int line_helper_check(void);

/* The contents of `request` need to be valid only until this returns. Limits the process's CPU time, and its memory
 * beyond the inherited memory. */
int line_helper_start(const struct dwarf_request *request, unsigned cpu_seconds, struct line_helper *ret);

/* The rest of the process's life, for a caller that has forked it: reads DWARF in the sandbox, with at most
 * `data_bytes` of memory beyond the inherited, and sends messages to `socket`. `parent_pid`: the process
 * ends with this one. */
_Noreturn void line_helper_run(const struct dwarf_request *request, int socket, int parent_pid, unsigned cpu_seconds,
                               uint64_t data_bytes);

/* Kills the process. -ETIMEDOUT: it does not end. `ret_status` is that of waitpid. */
int line_helper_end(struct line_helper *h, int *ret_status);
