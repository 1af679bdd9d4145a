/* What `sonde io` prints of an interval. Names that observed programs chose are cleaned of control characters. */
#pragma once

#include "base/buf.h"
#include "io_report/io_details.h"
#include "io_report/io_rows.h"
#include "model/coverage.h"

#include <stddef.h>
#include <stdint.h>

/* An interval: rows, and the lists below them. All borrowed. */
struct io_interval_text {
    const struct io_row *rows;
    size_t count;
    size_t omitted; /* rows that --top leaves out */
    const struct io_busy *busy;
    size_t busy_count;
    const struct io_failing *failing;
    size_t failing_count;
    unsigned fields;     /* of the rows */
    enum io_order order; /* of rows and `busy` */
    struct io_attribution attribution;
    uint64_t interval_ns;
    const struct coverage *coverage;
};

/* Appends a table: a heading, one line a row, what the columns mean, which share of the operations is not attributed,
 * and the lists below; without rows, the reason. */
void io_text_put(const struct io_interval_text *t, struct buf *out);

/* Appends one line: a JSON object of the interval. */
void io_text_put_json(const struct io_interval_text *t, struct buf *out);
