/* Cells of text tables on a terminal. */
#pragma once

struct buf;

/* Appends `text`, padded with blanks to `width` characters. Control characters are replaced by '?', as names chosen by
 * observed processes must not send escape sequences to the terminal. */
void table_cell_put(struct buf *out, const char *text, int width);

/* Likewise, but of a text that is longer than `width` only the end, behind "...": of a path what identifies it. */
void table_cell_put_end(struct buf *out, const char *text, int width);
