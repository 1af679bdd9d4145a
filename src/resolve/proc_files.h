/* Reading of /proc/PID: one directory handle a process, so that everything read is of one and the same
 * process even if its number is given to another meanwhile. Parsers are pure. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_stat {
    char command[16];
    char state;
    uint32_t parent_pid;
    uint32_t threads;
    uint64_t start_boot_ns; /* CLOCK_BOOTTIME, in ticks of 10 ms */
    bool is_kernel_thread;
};

#define PROC_START_TICK_NS 10000000ULL

/* -EBADMSG: not a stat line. */
int proc_stat_parse(const char *text, size_t size, struct proc_stat *ret);

/* A handle for the functions below, or -errno (-ESRCH: no such process). */
int proc_open(uint32_t pid);

int proc_read_stat(int proc_fd, struct proc_stat *ret);
/* Appends a whole file of the process; what is past `max_bytes` is left out. */
int proc_read(int proc_fd, const char *name, size_t max_bytes, struct buf *to);
/* The path of the executable without " (deleted)"; "" for kernel threads. */
int proc_read_executable(int proc_fd, char *ret, size_t size);
