/* What `sonde memory` prints, as tables and as JSON. */
#pragma once

#include "base/buf.h"
#include "memory_report/memory_report.h"

/* Append at most `rows` of each list of `r`. */
void memory_text_put(const struct memory_report *r, size_t rows, struct buf *out);
void memory_text_put_json(const struct memory_report *r, size_t rows, struct buf *out);
