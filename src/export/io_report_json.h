/* An I/O report and its findings as the JSON object of `sonde io report --json`. Documented in docs/signals/io.md. */
#pragma once

#include "base/buf.h"
#include "model/io_finding.h"

/* 0, or the buffer's error. */
int io_report_json_put(const struct io_report *report, const struct io_finding *findings, size_t finding_count,
                       struct buf *out);
