/* A recording for `sonde io report`: attaches to the kernel, takes what the kernel counted, and makes the report of it.
 * Main thread. */
#pragma once

#include "io_report/io_report_target.h"
#include "model/attach.h"
#include "model/io_report.h"

#include <stdbool.h>
#include <stdint.h>

/* Owns what it points to. Begins as IO_REPORT_RECORDING_NONE. */
struct io_report_recording {
    struct io_report_target target;
    struct shared_tables *tables;
    void *source; /* of source_io */
    struct io_report_data *data;
    struct recorder_waits *waits; /* NULL: the kernel refuses the recorder */
    struct attach_entry attached;
    bool is_refused; /* the source could not be opened or started */
};

#define IO_REPORT_RECORDING_NONE                                                                                       \
    {                                                                                                                  \
        .target = {.child = CHILD_NONE, .pid_fd = -1 }                                                                 \
    }

/* Attaches and starts to count the tasks of `filter`, which io_report_target_set has filled for `rec->target`. 0, or
 * -errno after logging. */
int io_report_recording_open(struct io_report_recording *rec, const struct task_filter *filter);
void io_report_recording_clear(struct io_report_recording *rec);

/* To be called several times a second, so that the kernel's tables have room; `is_last` after the end. -errno: some
 * operations may be missing. */
int io_report_recording_take(struct io_report_recording *rec, uint64_t now_ns, bool is_last);

/* Ends the recording and makes the report, which borrows from `rec`. Logs what is missing in it. -errno. */
int io_report_recording_finish(struct io_report_recording *rec, struct io_report *ret);
