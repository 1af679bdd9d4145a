/* Go's table of functions (.gopclntab), which stripped programs keep because the runtime itself needs it: Go 1.18
 * and later. */
#pragma once

#include "base/cleanup.h"
#include "base/cursor.h"
#include "resolve/elf/elf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct go_table { /* plain data; the file is borrowed */
    const struct elf_file *file;
    uint64_t offset, size; /* of the table in the file; it ends with its section */
    uint64_t names, names_end, changes,
        functions; /* offsets in the table; `changes`: value tables along the code, such as the stack depth */
    uint64_t text; /* base address of the functions' offsets */
    uint32_t count;
    uint8_t flags_at; /* in a function's record */
};

struct go_function {
    uint64_t start, end;
};

/* The section that contains the table, or that must be searched for it; NULL: not a Go program. */
const struct elf_section *go_table_section(const struct elf_file *file, bool *ret_is_searched);

/* -ENOENT: no such table, or in an unknown format. */
int go_table_find(const struct elf_file *file, struct go_table *ret);

/* Functions from index `first` on, sorted by address; returns the number read. */
size_t go_table_functions(const struct go_table *t, uint32_t first, struct go_function *ret, size_t max);

/* File offset of a function's name. -ENOENT: none. */
int go_table_name(const struct go_table *t, uint32_t function, uint64_t *ret_offset);

/* File offset of a short name in the table of names. -ENOENT: absent. */
int go_table_find_name(const struct go_table *t, const char *name, uint64_t *ret_offset);

/* Flags of a function (internal/abi/symtab.go). */
#define GO_FUNCTION_TOP_FRAME 1 /* the outermost of its stack */
#define GO_FUNCTION_SP_WRITE  2 /* writes an arbitrary value to the stack pointer */
#define GO_FUNCTION_ASSEMBLY  4

struct go_function_record {
    uint64_t start, end;
    uint64_t name_offset; /* file offset of its name */
    uint32_t depths;      /* offset from `changes` on of its stack depths; 0: unknown (go_depths_next) */
    uint8_t flags;
};

/* Iterates over all functions in table order, which is address order if a linker wrote it. The table is borrowed. */
struct go_table_walk;
int go_table_walk_new(const struct go_table *t, struct go_table_walk **ret);
void go_table_walk_free(struct go_table_walk *w);
DEFINE_FREEP(go_table_walk)
bool go_table_next(struct go_table_walk *w, struct go_function_record *ret);

/* The stack depth along a function's code: pairs of a change (zigzag) and the number of code bytes that it
 * holds for (runtime.step of runtime/symtab.go; one byte per unit on x86-64). */
struct go_depths {
    struct cursor c; /* at the function's `depths` */
    uint64_t at;     /* `depth` holds up to this distance from the function's start */
    int64_t depth;   /* bytes below the return address; -1 before the first */
};
#define GO_DEPTHS_AT(cursor) ((struct go_depths){.c = (cursor), .depth = -1})

/* False: that was the last one, or the table is damaged. */
bool go_depths_next(struct go_depths *d);
