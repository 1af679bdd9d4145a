/* Reads /proc/PID through one directory descriptor per process, so that everything read belongs to the same process
 * even if its PID is reused meanwhile. The parsers are pure. */
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

/* A descriptor for the functions below, or -errno (-ESRCH: no such process). */
int proc_open(uint32_t pid);

int proc_read_stat(int proc_fd, struct proc_stat *ret);
/* Appends a file of the process, cut off at `max_bytes`. */
int proc_read(int proc_fd, const char *name, size_t max_bytes, struct buf *to);
/* The path of the executable without " (deleted)"; "" for kernel threads. */
int proc_read_executable(int proc_fd, char *ret, size_t size);

/* From /proc/PID/status. */
struct proc_ids {
    uint32_t innermost_pid; /* the PID in the process's own PID namespace */
    uint32_t users[4];      /* real, effective, saved and file system UID, in our user namespace */
};

/* `text` is NUL-terminated. -EBADMSG: not a status file. */
int proc_ids_parse(const char *text, struct proc_ids *ret);
int proc_read_ids(int proc_fd, struct proc_ids *ret);
bool proc_ids_have_user(const struct proc_ids *ids, uint32_t user);
