/* Wire records of the lives of processes: fork, exec, name, mappings, exit. Made by the process source from perf's
 * side-band events (PERF_RECORD_FORK, _COMM with exec bit, _MMAP2, _EXIT), which cost nothing to system calls that are
 * not these. */
#pragma once

#include "probes/common/record.h"

struct process_fork {
    struct record_header h; /* pid, tid: the child */
    __u32 parent_pid;
    __u32 parent_tid;
};

/* A process took on a new program: its mappings are gone; those of the new one follow as RECORD_PROCESS_MMAP. */
struct process_exec {
    struct record_header h;
    char comm[16];
};

struct process_comm { /* a thread renamed itself */
    struct record_header h;
    char comm[16];
};

struct process_exit { /* one thread; the process is gone when tid == pid and no other thread is left */
    struct record_header h;
};

#define PROCESS_BUILD_ID_MAX_BYTES 20

/* Code was mapped. Data mappings are not reported. */
struct process_mmap {
    struct record_header h;
    __u64 start, size_bytes;
    __u64 file_offset;
    __u64 inode, inode_generation; /* 0 where build_id_bytes > 0: the kernel gives one or the other */
    __u32 device_major, device_minor;
    __u8 build_id_bytes;
    __u8 build_id[PROCESS_BUILD_ID_MAX_BYTES];
    __u8 reserved;
    __u16 path_bytes; /* with its NUL */
    char path[];      /* as the process sees it; "[vdso]", "//anon" and the like for what is no file */
};
_Static_assert(sizeof(struct process_mmap) == 24 + 24 + 16 + 8 + 24, "wire format");

struct process_lost {
    struct record_header h;
    __u64 events; /* how many side-band events the kernel dropped */
};
