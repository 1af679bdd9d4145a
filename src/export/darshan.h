/* A report of I/O as a log of Darshan, for its readers: PyDarshan (`python -m darshan summary`), darshan-parser,
 * drishti. docs/signals/io.md, "Darshan logs", lists its contents.
 *
 * A rank is a process, by its index. A file that all processes used (more than one) is one record of rank -1; files are
 * the same if path and inode are. Names and the command line are valid UTF-8, as PyDarshan requires: other bytes become
 * U+FFFD. Calls that name a path and no open file are the record "<calls by path>", one for each rank that made some.
 */
#pragma once

#include "base/buf.h"
#include "model/io_report.h"

/* Appends the log. 0 or -errno (-EFBIG: past the limit of the buffer): `out` then has a part of it. */
int darshan_write(const struct io_report *report, struct buf *out);
