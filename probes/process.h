/* Records of process lifecycle events: fork, exec, comm, mmap, exit. Created by the process source from perf side-band
 * records (PERF_RECORD_FORK, _COMM with exec bit, _MMAP2, _EXIT), which add no cost to other system calls. */
#pragma once

#include "probes/common/record.h"

enum {
    RECORD_PROCESS_FORK = 16, /* struct process_fork, and so on */
    RECORD_PROCESS_EXEC = 17,
    RECORD_PROCESS_COMM = 18,
    RECORD_PROCESS_EXIT = 19,
    RECORD_PROCESS_MMAP = 20,
    RECORD_PROCESS_LOST = 21, /* side-band records were lost: process state must be read again from /proc */
};

struct process_fork {
    struct record_header h; /* pid, tid: the child */
    __u32 parent_pid;
    __u32 parent_tid;
};

/* A process executed a new program: its mappings are gone; the new ones follow as RECORD_PROCESS_MMAP. */
struct process_exec {
    struct record_header h;
    char comm[16];
};

struct process_comm { /* a thread changed its name */
    struct record_header h;
    char comm[16];
};

struct process_exit { /* one thread; the process has ended when tid == pid and no other thread is left */
    struct record_header h;
};

#define PROCESS_BUILD_ID_MAX_BYTES 20

/* Code was mapped. Data mappings are not reported. */
struct process_mmap {
    struct record_header h;
    __u64 start, size_bytes;
    __u64 file_offset;
    __u64 inode, inode_generation; /* 0 where build_id_bytes > 0: the kernel reports one or the other */
    __u32 device_major, device_minor;
    __u8 build_id_bytes;
    __u8 build_id[PROCESS_BUILD_ID_MAX_BYTES];
    __u8 reserved;
    __u16 path_bytes; /* including the NUL */
    char path[];      /* as the process sees it; "[vdso]", "//anon", ... if not a file */
};
_Static_assert(sizeof(struct process_mmap) == 24 + 24 + 16 + 8 + 24, "record format");

struct process_lost {
    struct record_header h;
    __u64 events; /* side-band records dropped by the kernel */
};
