/* An I/O report and its findings as text for a terminal of 100 columns. Names that processes chose are without control
 * characters, and cut at their beginning where they do not fit. */
#pragma once

#include "base/buf.h"
#include "model/io_finding.h"

/* 0, -ENOMEM, or the buffer's error. */
int io_report_text_put(const struct io_report *report, const struct io_finding *findings, size_t finding_count,
                       struct buf *out);
