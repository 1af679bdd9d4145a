/* An I/O report and its findings as one self-contained HTML file: web/io.html with the JSON of io_report_json.h in
 * place of the placeholder. */
#pragma once

#include "base/buf.h"
#include "model/io_finding.h"

/* 0, or -errno; the error of the buffer, if it has one. */
int io_report_html_put(const struct io_report *report, const struct io_finding *findings, size_t finding_count,
                       struct buf *out);
