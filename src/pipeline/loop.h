/* Drives the pipeline: a libuv loop that runs a turn when a ring is readable or 250 ms have passed, calls a tick once
 * a second, and ends at a deadline, at SIGINT or SIGTERM, or on request. A turn of a service has limited time
 * (base/turn_time.h), and SIGINT or SIGTERM interrupts it. */
#pragma once

#include "base/cleanup.h"
#include "pipeline/pipeline.h"

#include <stdbool.h>
#include <stdint.h>

enum loop_kind {
    LOOP_OF_COMMAND, /* takes the time that it needs to end */
    LOOP_OF_SERVICE, /* SIGALRM ends the process if it takes no notice of SIGINT or SIGTERM for 5 s, or needs 10 s */
};

struct loop_options {
    uint64_t duration_ns; /* 0: until a signal */
    void *context;
    bool (*tick)(void *context);   /* called once a second, after a turn; false ends the loop. May be NULL. */
    bool (*ready)(void *context);  /* called after each turn until it returns true. May be NULL. */
    void (*woken)(void *context);  /* called after loop_wake. May be NULL. */
    void (*hangup)(void *context); /* called after SIGHUP, which otherwise ends the process. May be NULL. */
    _Atomic uint64_t *turned_ns;   /* set to the time (CLOCK_MONOTONIC) after each turn. May be NULL. */
    int child_pid;                 /* > 0: end when this child process has exited */
};

struct loop_end {
    int signal; /* the signal that ended the loop, or 0 */
    bool child_exited;
    int child_status; /* as of waitpid */
};

struct loop;

/* Creates the loop. From here until loop_run returns, SIGINT and SIGTERM end that run (immediately, if they arrived
 * before it). `p` is borrowed and must outlive the loop. A process has one loop at a time. The caller frees `*ret`, on
 * this thread. -ENOMEM or -errno. */
int loop_new(struct pipeline *p, enum loop_kind kind, struct loop **ret);
void loop_free(struct loop *l);
DEFINE_FREEP(loop)

/* Has `woken` called soon, on the loop's thread; once for several calls that precede it. From any thread, while the
 * loop exists. */
void loop_wake(struct loop *l);

/* Runs to the end, then stops the pipeline and turns it until all records are processed; a service does so for at most
 * two seconds, and drops the rest (pipeline_drop_rest). The pipeline must have been started. To be called once. 0 with
 * `*ret_end`; the error of a turn: the pipeline is then not stopped. */
int loop_run(struct loop *l, const struct loop_options *options, struct loop_end *ret_end);
