/* What the server must know of a reader's SQL before it passes it to the engine, whose read-only mode does not refuse
 * everything: it runs KILL, USE and several statements, writes to files, and lets subqueries change settings. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SQL_FORMAT_BYTES 64

struct sql_text {
    char format[SQL_FORMAT_BYTES]; /* that the text names by FORMAT; "": none */
};

/* 0, or -EACCES with a sentence in `ret_why`: the text is not one statement that only reads. `ret_why` is constant. */
int sql_text_check(const char *text, size_t size, struct sql_text *ret, const char **ret_why);

/* Whether a name has only letters, digits and underscores, as names of formats do. */
bool sql_name_is_plain(const char *name);
