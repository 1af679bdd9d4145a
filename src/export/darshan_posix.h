/* Records of Darshan's POSIX module. What Sonde does not observe is DARSHAN_NOT_AVAILABLE (docs/signals/io.md lists
 * it). Readers are misled by that in two counters, which are 0: PyDarshan adds POSIX_FDSYNCS to POSIX_FSYNCS, and sums
 * POSIX_MAX_BYTE_* as the sizes of files; no offset of an operation may be known. */
#pragma once

#include "export/darshan_format.h"
#include "model/io_report.h"

/* The record of a file as one process used it; its rank is the index of the process. */
void darshan_posix_record_of(const struct io_report_file *file, uint64_t id, struct darshan_posix_record *ret);

/* The record of a file that several processes used, reduced as Darshan reduces it when a job ends: sums, the first
 * start, the last end, maxima, the fastest and the slowest rank, and the variances over ranks. `count` > 0. */
void darshan_posix_record_of_all(const struct io_report_file *const *files, size_t count, uint64_t id,
                                 struct darshan_posix_record *ret);
