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

/* Of /proc/PID/status. */
struct proc_ids {
    uint32_t innermost_pid; /* what it takes itself for */
    uint32_t users[4];      /* real, effective, saved, of the file system; as our user namespace has them */
};

/* `text` is NUL-terminated. -EBADMSG: not such a text. */
int proc_ids_parse(const char *text, struct proc_ids *ret);
int proc_read_ids(int proc_fd, struct proc_ids *ret);
bool proc_ids_have_user(const struct proc_ids *ids, uint32_t user);
