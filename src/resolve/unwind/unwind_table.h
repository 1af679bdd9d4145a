/* Writes rows into the layout of probes/unwind/unwind.h: pages of 16-bit distances and rule numbers, every
 * distinct rule once. Streams: rows come in ascending order and are never held in any other form. */
#pragma once

#include "base/cleanup.h"
#include "resolve/unwind/cfi.h"

#include <stdint.h>

struct unwind_table_writer;

int unwind_table_writer_new(struct unwind_table_writer **ret);
void unwind_table_writer_free(struct unwind_table_writer *w);
DEFINE_FREEP(unwind_table_writer)

/* From `file_offset` (never below the one before) on, `rule` holds. Equal neighbours become one row. Errors
 * stick. */
void unwind_table_writer_add(struct unwind_table_writer *w, uint32_t file_offset, const struct unwind_rule *rule);

/* -EFBIG: more rows than a table holds. The writer is empty afterwards. */
int unwind_table_writer_finish(struct unwind_table_writer *w, struct unwind_table **ret);
