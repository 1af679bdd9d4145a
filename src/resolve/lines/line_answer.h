/* What the process that reads DWARF (line_helper.h) tells, one message for each place in the code, and a last one of
 * how it went. It has read what anybody wrote, so nothing that it says is relied on: messages are read through a
 * cursor, within bounds.
 *
 * A message: u8 kind; of LINE_ANSWER_PLACE u32 number of the address and u8 count of lines, then for each line,
 * innermost first, u32 line, u16 bytes of the file's path, u16 bytes of the function's name, both without NUL; of
 * LINE_ANSWER_END u8 status. Little-endian. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_ANSWER_LINES_MAX 64   /* of one place; what is inlined deeper is left out */
#define LINE_ANSWER_TEXT_MAX  1024 /* bytes; longer ones are cut */
#define LINE_ANSWER_BYTES_MAX (6 + LINE_ANSWER_LINES_MAX * (8 + 2 * LINE_ANSWER_TEXT_MAX))

enum line_answer_kind { LINE_ANSWER_PLACE = 1, LINE_ANSWER_END };

enum line_answer_status {
    LINE_STATUS_WHOLE,      /* all that there is was told */
    LINE_STATUS_NO_DWARF,   /* the file has none that libdw reads */
    LINE_STATUS_DAMAGED,    /* some of it could not be read */
    LINE_STATUS_NO_SPLIT,   /* all that was there could be, but split units were not */
    LINE_STATUS_NO_LIBRARY, /* libdw is not installed */
    LINE_STATUS_COUNT
};

struct line_answer_line {
    uint32_t line;                       /* 0: not known */
    char file[LINE_ANSWER_TEXT_MAX + 1]; /* "": not known */
    char name[LINE_ANSWER_TEXT_MAX + 1]; /* as linkers know it, or as it stands in the source; "": not known */
};

struct line_answer {
    enum line_answer_kind kind;
    enum line_answer_status status; /* of LINE_ANSWER_END */
    uint32_t number;                /* of the address */
    size_t count;
    struct line_answer_line lines[LINE_ANSWER_LINES_MAX];
};

/* Writing: _begin, _add for each line, _finish, which gives false when there was no memory. */
void line_answer_begin(struct buf *out, uint32_t number);
void line_answer_add(struct buf *out, const char *file, uint32_t line, const char *name);
bool line_answer_finish(struct buf *out, size_t count);
void line_answer_end(struct buf *out, enum line_answer_status status);

/* Control characters in texts become spaces. -EBADMSG: no such message, or one that is not in these bounds; `ret` is
 * then not to be read. */
int line_answer_read(const void *data, size_t size, struct line_answer *ret);
