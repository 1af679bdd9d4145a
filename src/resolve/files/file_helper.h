/* The file helper: a process of our own that opens the files of observed processes, and reads those whose file
 * system may block (NFS, FUSE, file systems stacked on them, a process's memory). A thread that blocks in a dead
 * file system cannot be ended, not even by SIGKILL. The helper therefore uses one thread per request, and the agent
 * itself never blocks. This header is the protocol on its sockets; file_opener.h is the client. */
#pragma once

#include "resolve/files/object_file.h"
#include "resolve/files/process_context_file.h"

#include <stddef.h>
#include <stdint.h>

#define FILE_PATH_BYTES 4096

enum file_request_kind {
    FILE_REQUEST_SIGHT,        /* the file behind a mapping */
    FILE_REQUEST_REOPEN,       /* a remote file that was opened before, by its O_PATH descriptor */
    FILE_REQUEST_PROCESS_ROOT, /* another file, by its path in the mount namespace of the sight's processes */
    FILE_REQUEST_OWN_ROOT,     /* another file, by its path in our own mount namespace */
    FILE_REQUEST_PROC,         /* a file of /proc/PID, by the directory's descriptor: the reply is a copy */
    FILE_REQUEST_PERF_MAP,     /* a process's /tmp/perf-PID.map, by the descriptor of its directory in /proc */
    FILE_REQUEST_CONTEXT,      /* a copy of a process's context, by that descriptor (process_context_copy) */
    FILE_REQUEST_MEMORY,       /* a copy of max_bytes of a process's memory, by that descriptor */
};

/* A request, sent to the helper with the socket for the reply and, for some kinds, a descriptor. */
struct file_request {
    enum file_request_kind kind;
    struct object_sight sight; /* the pointers in it are not valid in the helper; the members below replace them */
    uint8_t build_id[OBJECT_BUILD_ID_MAX];
    uint64_t max_bytes;                   /* limit for a file of /proc/PID: the rest is left out */
    uint64_t address;                     /* for FILE_REQUEST_MEMORY */
    uint64_t not_before_ns;               /* oldest acceptable mtime of a perf map (CLOCK_REALTIME) */
    struct process_context_place context; /* the context that the requester already has */
    char path[FILE_PATH_BYTES];
};

/* The reply. It is preceded by the ID (pid_t) of the thread that accepted the request.
 *
 * A local file is returned as a descriptor for reading. A remote file is read over the socket of the reply. For
 * FILE_REQUEST_SIGHT a remote file is returned as an O_PATH descriptor instead; FILE_REQUEST_REOPEN requests it later
 * by that: holding or closing an O_PATH descriptor never blocks. */
struct file_reply {
    int error; /* 0 or -errno */
    struct object_identity identity;
};

/* Main function of the forked process. `control` is the only descriptor it keeps; it exits when the other end
 * closes. */
_Noreturn void file_helper_run(int control);
