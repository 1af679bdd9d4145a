/* Messages of the process that reads DWARF (line_helper.h): one for each place in the code, and a final one with the
 * status. That process has parsed untrusted files and may be compromised, so its messages are read through a cursor
 * and checked against limits.
 *
 * Format, little-endian: u8 kind. LINE_ANSWER_PLACE: u32 index of the address, u8 count of lines, then for each
 * line, innermost first, u32 line, u16 length of the file's path, u16 length of the function's name, u16 length of its
 * linkage name, and the strings without NUL. LINE_ANSWER_END: u8 status. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_ANSWER_LINES_MAX 64   /* per place; deeper inlining is left out */
#define LINE_ANSWER_TEXT_MAX  1024 /* bytes; longer strings are cut */
#define LINE_ANSWER_BYTES_MAX (6 + LINE_ANSWER_LINES_MAX * (10 + 3 * LINE_ANSWER_TEXT_MAX))

enum line_answer_kind { LINE_ANSWER_PLACE = 1, LINE_ANSWER_END };

enum line_answer_status {
    LINE_STATUS_WHOLE,      /* complete */
    LINE_STATUS_NO_DWARF,   /* the file has none that libdw reads */
    LINE_STATUS_DAMAGED,    /* some of it could not be read */
    LINE_STATUS_NO_SPLIT,   /* complete except for split units */
    LINE_STATUS_NO_LIBRARY, /* libdw is not installed */
    LINE_STATUS_COUNT
};

struct line_answer_line {
    uint32_t line;                              /* 0: unknown */
    char file[LINE_ANSWER_TEXT_MAX + 1];        /* "": unknown */
    char name[LINE_ANSWER_TEXT_MAX + 1];        /* demangled; "": unknown */
    char system_name[LINE_ANSWER_TEXT_MAX + 1]; /* linkage name; "": equal to `name` */
};

struct line_answer {
    enum line_answer_kind kind;
    enum line_answer_status status; /* of LINE_ANSWER_END */
    uint32_t number;                /* index of the address */
    size_t count;
    struct line_answer_line lines[LINE_ANSWER_LINES_MAX];
};

/* Writing: _begin, _add for each line, then _finish, which returns false when memory ran out. */
void line_answer_begin(struct buf *out, uint32_t number);
void line_answer_add(struct buf *out, const char *file, uint32_t line, const char *name, const char *system_name);
bool line_answer_finish(struct buf *out, size_t count);
void line_answer_end(struct buf *out, enum line_answer_status status);

/* Control characters in strings become spaces. -EBADMSG: malformed or past a limit; the contents of `ret` are then
 * undefined. */
int line_answer_read(const void *data, size_t size, struct line_answer *ret);
