/* What `sonde memory` prints, as tables and as JSON. */
#pragma once

#include "base/buf.h"
#include "memory_report/memory_report.h"

/* Sorts the lists of `r`, and appends at most `rows` of each. */
void memory_text_put(struct memory_report *r, size_t rows, struct buf *out);
void memory_text_put_json(struct memory_report *r, size_t rows, struct buf *out);
