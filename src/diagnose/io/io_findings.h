/* Findings of an I/O report: avoidable costs in time, found by rules comparable with the rules of drishti-io. Each
 * finding is weighed by the time that it explains. Pure.
 *
 * A finding's share is relative to the observed time: the report's duration, times the most processes that did I/O at
 * once. If its share of the duration, for the process that it costs most, is larger, that share counts: the other
 * processes may wait for that one. A cost of less than 1 % is not a finding. Findings may explain the same time: random
 * reads are also reads that no cache held. */
#pragma once

#include "model/io_finding.h"

struct io_findings {
    struct io_finding items[IO_FINDINGS_MAX]; /* those that explain the most time first */
    size_t count;
};

/* Names and files refer to `report`. 0, or -ENOMEM; `*ret` is set only on success. */
int io_findings_find(const struct io_report *report, struct io_findings *ret);
