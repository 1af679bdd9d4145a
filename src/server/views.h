/* Views with plain names over the tables of the centre (tables.h), which docs/sql.md explains. Each has a comment with
 * a hash of its text: a view of another version is replaced, and a table or view of that name without such a comment is
 * not ours, and is left alone. */
#pragma once

#include "base/buf.h"

#include <stddef.h>

enum view_state { VIEW_IS_CURRENT, VIEW_IS_MISSING, VIEW_IS_OLD, VIEW_IS_FOREIGN };

/* The number of views. A view uses only views with lower numbers, so they can be created in this order. */
size_t views_count(void);
const char *view_name(size_t view);

/* Appends the query whose result, in TSV, view_state takes. */
void view_put_find(struct buf *sql, size_t view);
enum view_state view_state(size_t view, const char *found, size_t size);
/* Appends the statement that creates the view, or replaces it if it is old. */
void view_put_create(struct buf *sql, size_t view);
