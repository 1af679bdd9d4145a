/* Writer of unwind tables in the layout of probes/unwind/unwind.h: pages of 16-bit distances and rule numbers; each
 * distinct rule is stored once. Streaming: rows must arrive in ascending order, and are held only in that layout. */
#pragma once

#include "base/cleanup.h"
#include "resolve/unwind/cfi.h"

#include <stdint.h>

struct unwind_table_writer;

/* An empty table. The caller frees `*ret`. -ENOMEM. */
int unwind_table_writer_new(struct unwind_table_writer **ret);
void unwind_table_writer_free(struct unwind_table_writer *w);
DEFINE_FREEP(unwind_table_writer)

/* Adds a row: `rule` applies from `file_offset`, which must not decrease, until the next row. Equal neighbours are
 * merged. Errors are kept, and returned by finish. */
void unwind_table_writer_add(struct unwind_table_writer *w, uint32_t file_offset, const struct unwind_rule *rule);

/* Returns the table; the caller frees `*ret`. The writer cannot be used again, but must be freed. -ENOENT: no rows;
 * -EFBIG: more rows than a table can have; -ENOMEM. */
int unwind_table_writer_finish(struct unwind_table_writer *w, struct unwind_table **ret);
