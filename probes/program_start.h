/* What probes/process.bpf.c shares with user space. */
#pragma once

#define PROGRAM_STARTS_MAX 2048

struct program_start_entry {
    __u64 exec_ns;
    __u32 mount_namespace; /* inode number */
    __u32 lacks_service;   /* 1: the environment contains no "OTEL" */
};

/* Per CPU. */
struct program_start_stats {
    __u64 runs, run_time_ns;
};
