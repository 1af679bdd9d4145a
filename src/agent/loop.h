/* What drives the pipeline: one libuv loop that turns it when a ring asks for it or a quarter of a second has passed,
 * calls a tick once a second, and ends at a deadline, at SIGINT or SIGTERM, or when asked. */
#pragma once

#include "agent/pipeline.h"
#include "base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

struct loop_options {
    uint64_t duration_ns; /* 0: until a signal */
    void *context;
    bool (*tick)(void *context); /* once a second, after a turn; false ends the loop. May be NULL. */
    bool (*ready)(
        void *context); /* after each turn until it returns true: the waiting process has been notified. May be NULL. */
    int child_pid;      /* > 0: end when this child of ours has exited */
};

struct loop_end {
    int signal; /* that ended it, or 0 */
    bool child_exited;
    int child_status; /* as of waitpid */
};

struct loop;

/* From here until loop_run is back, SIGINT and SIGTERM end that run (at once, when they came before it). The caller
 * keeps `p` until the loop has been freed. */
int loop_new(struct pipeline *p, struct loop **ret);
void loop_free(struct loop *l);
DEFINE_FREEP(loop)

/* Once: runs to the end, then stops the pipeline and turns it until nothing seen is left behind. */
int loop_run(struct loop *l, const struct loop_options *options, struct loop_end *ret_end);
