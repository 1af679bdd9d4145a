/* Whose I/O a report is about: a job, a process with its children, or a command that is started for it. */
#pragma once

#include "base/child.h"
#include "base/cleanup.h"
#include "model/task_filter.h"

#include <stdbool.h>
#include <stdint.h>

struct io_report_target {
    char *title, *executable, *job_id; /* as in struct io_report; owned */
    struct child child;                /* of a command */
    int status;                        /* of a command that has ended, as waitpid reports it */
    int pid_fd;                        /* of a process or command; -1: none */
    char *cgroups[TASK_FILTER_MAX];    /* paths, of a job; owned */
    size_t cgroup_count;
    uint64_t checked_ns; /* when the cgroups were last looked for */
};

/* One of `job`, `pid` and `command` is given. A command is forked, and executed when io_report_target_start is called.
 * Fills `filter`. 0, or -errno after logging; the target is to be cleared in any case. */
int io_report_target_set(struct io_report_target *t, const char *job, int64_t pid, char **command,
                         struct task_filter *filter);
void io_report_target_clear(struct io_report_target *t);

/* 0, or -errno after logging: the command cannot be executed. */
int io_report_target_start(struct io_report_target *t);

/* Sends a signal to a command that runs; does nothing to a job or process. */
void io_report_target_terminate(const struct io_report_target *t, int signal_number);

/* Whether a process that runs is one of the job. False for a process or command: its children are followed in the
 * kernel.
 */
bool io_report_target_has(const struct io_report_target *t, uint32_t pid);

/* Waits for `wait_ns`, or until the command or process has ended, or no cgroup of the job is left. True: that is so. */
bool io_report_target_wait(struct io_report_target *t, uint64_t wait_ns);
