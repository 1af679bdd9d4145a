/* A process of ours that reads what strangers wrote, by a library that was not written for that: it keeps nothing that
 * could be misused. It has no rights, cannot start anything, write to any file or reach any other process or network,
 * and opens no file: when it tries to, who started it is asked to open that one, and hands it over or not. */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct sandbox_limits {
    uint64_t data_bytes; /* beyond what the process has already; 0: no bound (a sanitizer's shadow is terabytes) */
    unsigned cpu_seconds;
};

/* For the process itself, once all that it needs is loaded and open. Ends with its parent, `parent_pid`, too. Where the
 * kernel allows it, `*ret_listener` is for the parent, to be sent to it and closed; -1: no file can be opened at all.
 * -errno: it is not confined. */
int sandbox_enter(const struct sandbox_limits *limits, int parent_pid, int *ret_listener);

/* For the parent, when `listener` can be read: which file is asked for. -EAGAIN: none any more. */
struct sandbox_open {
    uint64_t id;
    char path[PATH_MAX];
};
int sandbox_next_open(int listener, struct sandbox_open *ret);
/* `fd` stays the caller's; < 0: -errno is what the process gets to see. */
void sandbox_answer_open(int listener, const struct sandbox_open *asked, int fd);
