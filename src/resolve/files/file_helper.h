/* The helper: a process of our own that opens the files of observed processes, and reads those whose file
 * system may keep a reader waiting (NFS, FUSE, what lies over them, a process's own memory). Whoever waits in
 * a dead file system cannot be ended, not even by a signal: that is the helper's lot, in one thread for each
 * thing asked for, and never the agent's. This is what goes over its sockets; who asks is file_opener.h. */
#pragma once

#include "resolve/files/object_file.h"
#include "resolve/files/process_context_file.h"

#include <stddef.h>
#include <stdint.h>

#define FILE_PATH_BYTES 4096

enum file_ask_kind {
    FILE_ASK_SIGHT,    /* the file of a mapping */
    FILE_ASK_AGAIN,    /* one that was answered to be far, by its descriptor */
    FILE_ASK_BESIDE,   /* another file, by its path as the processes of the sight see it */
    FILE_ASK_OURS,     /* ... as we see it */
    FILE_ASK_PROC,     /* a file of /proc/PID, by the directory's descriptor: what is answered is a copy */
    FILE_ASK_PERF_MAP, /* a process's /tmp/perf-PID.map, by the descriptor of its directory in /proc */
    FILE_ASK_CONTEXT,  /* a process's context, by that descriptor: a copy, too (process_context_copy) */
    FILE_ASK_MEMORY,   /* max_bytes of a process's memory, by that descriptor: a copy, too */
};

/* Sent to the helper with the socket for the answer, and after it the descriptor that some kinds have. */
struct file_ask {
    enum file_ask_kind kind;
    struct object_sight sight; /* its pointers mean nothing there: */
    uint8_t build_id[OBJECT_BUILD_ID_MAX];
    uint64_t max_bytes;                   /* of a file of /proc/PID: what is past them is left out */
    uint64_t address;                     /* of memory */
    uint64_t not_before_ns;               /* of a perf map: when it was written last (CLOCK_REALTIME) */
    struct process_context_place context; /* what is known of it */
    char path[FILE_PATH_BYTES];
};

/* Before the answer the number (pid_t) of the thread that took the question up.
 *
 * A file that is near comes as a descriptor to read. One that is far can be read over the socket of the
 * answer; of a sight's comes an O_PATH descriptor instead, with which it can be asked for again: to hold that
 * one and to close it keeps nobody waiting. */
struct file_answer {
    int error; /* 0 or -errno */
    struct object_identity identity;
};

/* What the new process does, with `control` as its only descriptor; ends when that is closed. */
_Noreturn void file_helper_run(int control);
