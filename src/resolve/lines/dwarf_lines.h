/* From addresses to source lines, by libdw: what the process does that reads DWARF (line_helper.h), and no other. */
#pragma once

#include "resolve/lines/dwarf_library.h"
#include "resolve/lines/line_answer.h"

struct dwarf_question {
    int fd;                    /* of the file with the DWARF */
    int alt_fd;                /* of what dwz took out of it (.gnu_debugaltlink); -1: none */
    const uint64_t *addresses; /* as in the ELF file, ascending */
    size_t count;
    bool inlines; /* also the functions that were inlined there; else the line of the function itself alone */
};

/* Hands each message (line_answer.h) to `send`, that of the end not; what is not told of is in no unit. False from
 * `send` ends it. */
typedef bool dwarf_lines_send(void *context, const void *data, size_t size);
enum line_answer_status dwarf_lines_answer(const struct dwarf_library *dw, const struct dwarf_question *question,
                                           dwarf_lines_send *send, void *context);
