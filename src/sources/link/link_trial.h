/* Tests whether uprobes with a semaphore work on this machine, by firing one in this process. */
#pragma once

struct bpf_program;

/* Attaches `program` to a site in this process's memory, calls it and detaches. Returns 0, -errno, or -ENOSYS if it
 * attaches but does not fire. `stats_fd`: the program's map of struct link_stats. */
int link_trial(struct bpf_program *program, int stats_fd);
