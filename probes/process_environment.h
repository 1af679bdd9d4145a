/* What probes/process.bpf.c shares with user space. */
#pragma once

#define PROCESS_ENVIRONMENTS_MAX 2048

/* Per CPU. */
struct process_environment_stats {
    __u64 runs, run_time_ns;
};
