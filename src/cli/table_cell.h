/* A cell of a table for people. */
#pragma once

struct buf;

/* Appends `text` and what is missing to `width` bytes. Names are whatever a process or a program says: none may move
 * the cursor of the terminal that they are shown on, so control characters come out as '?'. */
void table_cell_put(struct buf *out, const char *text, int width);
