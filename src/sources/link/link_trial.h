/* Whether uprobes with a semaphore really work on this machine, found out by one of our own. */
#pragma once

struct bpf_program;

/* Attaches `program` to a place in memory of this very process, goes through it, and detaches. 0, -errno, or
 * -ENOSYS where it can be attached but nothing comes of it. `stats_fd`: of struct link_stats, in which the
 * program counts. */
int link_trial(struct bpf_program *program, int stats_fd);
