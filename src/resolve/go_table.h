/* Go's table of functions (.gopclntab), which stripped programs keep because the runtime itself needs it:
 * Go 1.18 and later. */
#pragma once

#include "resolve/elf.h"

#include <stddef.h>
#include <stdint.h>

struct go_table { /* plain data; the file is borrowed */
    const struct elf_file *file;
    uint64_t offset, size;     /* of the table in the file */
    uint64_t names, functions; /* in the table */
    uint64_t text;             /* address that functions' places count from */
    uint32_t count;
};

struct go_function {
    uint64_t start, end;
};

/* -ENOENT: no such table, or of a form we do not know. */
int go_table_find(const struct elf_file *file, struct go_table *ret);

/* Functions from number `first` on, in the order of their addresses; returns how many were read. */
size_t go_table_functions(const struct go_table *t, uint32_t first, struct go_function *ret, size_t max);

/* Where in the file the name of a function stands. */
int go_table_name(const struct go_table *t, uint32_t function, uint64_t *ret_offset);
