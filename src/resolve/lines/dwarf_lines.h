/* Converts addresses to source lines with libdw: the work of the process that reads DWARF (line_helper.h); no other
 * process calls it. */
#pragma once

#include "resolve/lines/dwarf_library.h"
#include "resolve/lines/line_answer.h"

struct dwarf_request {
    int fd;                    /* of the file with the DWARF */
    int alt_fd;                /* of the file that dwz moved parts of it to (.gnu_debugaltlink); -1: none */
    const uint64_t *addresses; /* as in the ELF file, ascending */
    size_t count;
    bool inlines; /* also report the functions inlined there; otherwise only the line of the function itself */
};

/* Passes each message (line_answer.h) to `send`, except the end message. Addresses without a message belong to no
 * unit. False from `send` ends the search. */
typedef bool dwarf_lines_send(void *context, const void *data, size_t size);
enum line_answer_status dwarf_lines_find(const struct dwarf_library *dw, const struct dwarf_request *request,
                                         dwarf_lines_send *send, void *context);
