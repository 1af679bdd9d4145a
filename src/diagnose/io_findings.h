/* What an I/O report shows that costs time and can be changed, by rules comparable with those of drishti-io, each
 * weighed by the time that it explains. Pure.
 *
 * A finding's share is of the observed time: the report's duration, times the most processes that did I/O at once; or
 * of the duration, for the process that it costs most, if that is more: the others may wait for that one. What explains
 * less than 1 % is no finding. Findings may explain the same time: random reads are also reads that no cache held. */
#pragma once

#include "model/io_finding.h"

struct io_findings {
    struct io_finding items[IO_FINDINGS_MAX]; /* those that explain the most time first */
    size_t count;
};

/* Names and files refer to `report`. 0, or -ENOMEM; `*ret` is set only on success. */
int io_findings_find(const struct io_report *report, struct io_findings *ret);
