/* What `sonde io` prints of an interval. Names that observed programs chose are cleaned of control characters. */
#pragma once

#include "base/buf.h"
#include "cli/io_rows.h"

#include <stddef.h>
#include <stdint.h>

/* Appends a table: a heading, and one line a row. */
void io_text_put(const struct io_row *rows, size_t count, unsigned fields, uint64_t interval_ns, struct buf *out);

/* Appends one line: a JSON object of the interval with its rows. */
void io_text_put_json(const struct io_row *rows, size_t count, uint64_t interval_ns, struct buf *out);
