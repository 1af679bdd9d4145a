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

/* Parses the text of /proc/PID/stat. -EBADMSG: malformed; `ret` is unchanged. */
int proc_stat_parse(const char *text, size_t size, struct proc_stat *ret);

/* A descriptor for the functions below, which the caller closes, or -errno (-ESRCH: no such process). Of a process that
 * has exited since, they return -ESRCH or -ENOENT, never data of another one. */
int proc_open(uint32_t pid);

/* Whether no process of this PID runs any more. A zombie counts as gone: it maps nothing and makes no calls. */
bool proc_is_gone(uint32_t pid);

/* 0, -EBADMSG or -errno; `ret` is unchanged on failure. */
int proc_read_stat(int proc_fd, struct proc_stat *ret);
/* Appends a file of the process, cut off at `max_bytes`. 0, or -errno: part of it may have been appended. For files
 * that do not touch the process's memory; see file_opener_read_proc for the others. */
int proc_read(int proc_fd, const char *name, size_t max_bytes, struct buf *to);
/* The path of the executable without " (deleted)", cut to `size`. -errno: `ret` is "" (-ENOENT: a kernel thread). */
int proc_read_executable(int proc_fd, char *ret, size_t size);

/* How often thread `tid` of the process has left its CPU. 0, -EBADMSG or -errno; `ret` is unchanged on failure. */
int proc_read_switches(uint32_t pid, uint32_t tid, uint64_t *ret);

/* From /proc/PID/status. */
struct proc_ids {
    uint32_t innermost_pid; /* the PID in the process's own PID namespace */
    uint32_t users[4];      /* real, effective, saved and file system UID, in our user namespace */
};

/* `text` is NUL-terminated. -EBADMSG: not a status file. */
int proc_ids_parse(const char *text, struct proc_ids *ret);
/* 0, -EBADMSG or -errno; `ret` is unchanged on failure. */
int proc_read_ids(int proc_fd, struct proc_ids *ret);
/* The PID of process `pid` in its own PID namespace; `pid` if it cannot be read. */
uint32_t proc_innermost_pid(uint32_t pid);
/* Whether `user` is any of the four. */
bool proc_ids_have_user(const struct proc_ids *ids, uint32_t user);
