/* The data of a batch in the spool: the rows of one request, by table. */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"
#include "server/tables.h"

#include <stdbool.h>

/* Appends the rows of one table; nothing if there are none. */
void batch_put_rows(struct buf *batch, enum table table, const struct buf *rows);

/* The next table of a batch and its rows, borrowed. False at the end. */
bool batch_next_rows(struct cursor *batch, enum table *ret_table, struct cursor *ret_rows);
