/* The process that reads the DWARF of one file and tells the source lines of addresses: one for each file, so that
 * whoever breaks it by what he wrote into his file breaks it for that one alone. It is forked when it is needed, and
 * confined (base/sandbox.h) before it reads a byte. What it tells: line_answer.h, each message a packet on its socket.
 */
#pragma once

#include "resolve/lines/dwarf_lines.h"

#include <stdint.h>
#include <sys/types.h>

struct line_helper {
    pid_t pid;
    int socket;   /* its answers; the first message has the listener for files that it wants opened */
    int listener; /* -1: not there yet, or it cannot be asked */
};

/* Whether it could work at all: 0; -ENOPKG: libdw is not there. Tried out in a process of its own. */
int line_helper_check(void);

/* What is in `question` need only hold until this returns. Its memory beyond what it has from us is bounded, and so is
 * its CPU time. */
int line_helper_start(const struct dwarf_question *question, unsigned cpu_seconds, struct line_helper *ret);

/* Ends it, whatever it does. -ETIMEDOUT: it cannot be ended. `ret_status` as of waitpid. */
int line_helper_end(struct line_helper *h, int *ret_status);
