/* What the rules of io_findings.h measure against: the processes of an I/O report, and how many of them did I/O. */
#pragma once

#include "base/cleanup.h"
#include "model/io_report.h"

struct io_process_use {
    uint32_t process; /* index of io_report.processes */
    uint64_t time_ns; /* of all operations */
    uint64_t bytes;
    uint64_t explained_ns;      /* by the rule that is being applied */
    uint64_t first_ns, last_ns; /* the first operation began, the last one ended */
};

struct io_observed {
    struct io_process_use *processes; /* in the order of the report's processes */
    size_t process_count;
    double time_ns;  /* the report's duration, times the most processes that did I/O at once: those with at least a
                        hundredth of the busiest one's time */
    uint64_t io_ns;  /* of all operations */
    uint64_t one_ns; /* the report's duration */
};

/* 0, or -ENOMEM. */
int io_observed_measure(const struct io_report *report, struct io_observed *ret);
void io_observed_clear(struct io_observed *observed);

#define _cleanup_io_observed_ _cleanup_(io_observed_clear)
