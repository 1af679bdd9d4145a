/* Receives the messages of a process that reads the DWARF of one file (line_helper.h), and opens the .dwo files that it
 * asks for. The process is not trusted: a malformed message ends the reading. */
#pragma once

#include "resolve/lines/line_answer.h"
#include "resolve/lines/line_helper.h"
#include "resolve/object/object.h"

#include <stdint.h>

struct line_reading {
    const struct object *object; /* the file, whose .dwo files are opened */
    uint64_t until_ns;           /* CLOCK_MONOTONIC: the end of its time */
    uint64_t copy_max;           /* as of line_files_open_split */
    int stop_fd;                 /* readable: cancel; -1: none */
    /* Takes the message of one address. An -errno ends the reading. */
    int (*place)(void *context, const struct line_answer *answer);
    void *context;
    struct line_answer *answer; /* memory for one message */

    /* Results. */
    enum line_answer_status status; /* if `error` is 0 */
    int error; /* -EBADMSG: the process ended early or sent garbage; -ETIMEDOUT; -ECANCELED; -ENOSPC; that of `place` */

    /* private */
    unsigned opens;
    bool greeted, ended;
};

/* Returns when the process has sent its last message, or with `error`. The caller ends the process. */
void line_reading_run(struct line_reading *r, struct line_helper *helper);
